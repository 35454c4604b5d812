"""A storage as the read-only file system that Arrow's scanners want."""

import atexit
import io
import time
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from icestream.errors import NotFoundError, ReadOnlyError
from icestream.storage.protocol import Storage

_PATIENCE_S = 2.0
_SHORT_WHILE_S = 0.001
_MANY_AT_ONCE = 16


def open_file_system(storage: Storage, sizes: Mapping[str, int] | None = None) -> PyFileSystem:
    """Return the objects of a storage as a file system; see `StorageFiles`."""
    opened = PyFileSystem(StorageFiles(storage, sizes))
    _recent.append(opened)
    return opened


class StorageFiles(FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The objects of one storage as files; parts are fetched when they are read."""

    def __init__(self, storage: Storage, sizes: Mapping[str, int] | None = None) -> None:
        """Wrap a storage.

        Args:
            storage: Where the objects are.
            sizes: Of objects whose size is known, which saves asking for it.
        """
        self._storage = storage
        self._sizes = sizes or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageFiles) and other._storage is self._storage

    def __hash__(self) -> int:
        return id(self._storage)

    def get_type_name(self) -> str:
        """Name the kind of file system."""
        return "icestream-storage"

    def normalize_path(self, path: str) -> str:
        """Return a path as it is: keys have one form only."""
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        """Return which paths are there, and how large they are."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        try:
            info = self._storage.head(path)
        except NotFoundError:
            return FileInfo(path, FileType.NotFound)
        return FileInfo(path, FileType.File, size=info.size_bytes)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        """Return all files below a folder."""
        prefix = f"{selector.base_dir.rstrip('/')}/" if selector.base_dir else ""
        return [
            FileInfo(item.path, FileType.File, size=item.size_bytes)
            for item in self._storage.list(prefix)
        ]

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Open a file for reading anywhere in it."""
        size = self._sizes.get(path)
        size = self._storage.head(path).size_bytes if size is None else size
        return pa.PythonFile(_ObjectFile(self._storage, path, size), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """Open a file for reading from its start."""
        return self.open_input_file(path)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyError("slices are only read through this file system")

    create_dir = _refuse
    delete_dir = _refuse
    delete_dir_contents = _refuse
    delete_root_dir_contents = _refuse
    delete_file = _refuse
    move = _refuse
    copy_file = _refuse
    open_output_stream = _refuse
    open_append_stream = _refuse


class _ObjectFile(io.RawIOBase):
    """One object as a file that fetches what is read."""

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        super().__init__()
        self._storage, self._path, self._size = storage, path, size
        self._position = 0
        _open_files.add(self)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """Return how many bytes there are, which Arrow asks before anything else."""
        return self._size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        self._position = bases[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size if size is None or size < 0 else self._position + size
        end = min(wanted, self._size)
        if end <= self._position:
            return b""
        data = self._storage.get(self._path, (self._position, end))
        self._position = end
        return data


# Threads of Arrow let go of files and file systems a moment after the table is there. The one that
# drops the last reference enters Python for it; if Python is just ending then, that thread is
# stopped by force, which aborts the process.

_recent: deque[PyFileSystem] = deque(maxlen=_MANY_AT_ONCE)
"""Held here, so that the last reference is never that of a thread."""
_open_files: weakref.WeakSet[_ObjectFile] = weakref.WeakSet()


@atexit.register
def _await_readers() -> None:
    """Let threads drop the files that they have read before Python ends."""
    deadline = time.monotonic() + _PATIENCE_S
    while len(_open_files) and time.monotonic() < deadline:
        time.sleep(_SHORT_WHILE_S)
