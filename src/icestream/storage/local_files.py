"""Files of other programs, read as they are named."""

import os
import stat
from collections.abc import Iterable
from typing import NoReturn

from icestream.errors import ErrorKind, NotFoundError, ReadOnlyError
from icestream.storage.keys import check_key
from icestream.storage.local import LocalStorage, read_error
from icestream.storage.protocol import DeleteResult, Version

_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class LocalFiles(LocalStorage):
    """Every file below `path`, under its own name; read only.

    A repository encodes odd characters in its keys and hides some names. Files of others have the
    names that they have. Pipes and devices are not objects: reading one may wait for ever.
    """

    read_only = True

    def __init__(self, path: str) -> None:
        super().__init__(path, sync="never")
        self._folder = self.path.rstrip("/")

    def __repr__(self) -> str:
        return f"LocalFiles({self.path!r})"

    def _file(self, path: str) -> str:
        check_key(path)
        return f"{self._folder}/{path}"

    def _open(self, path: str) -> int:
        try:
            fd = os.open(self._file(path), _OPEN_FLAGS)
        except OSError as error:
            raise read_error(path, error) from error
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise NotFoundError(f"{path} is not a file", kind=ErrorKind.OBJECT_NOT_FOUND)

    def _stored_prefix(self, prefix: str) -> str:
        return prefix

    def _path_of(self, stored: str) -> str | None:
        return stored

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Refuse."""
        del data, content_type
        self._refuse(path)

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Refuse."""
        del data, content_type
        self._refuse(path)

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Refuse."""
        del data, version, content_type
        self._refuse(path)

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Refuse."""
        self._refuse(", ".join(paths))

    def _refuse(self, path: str) -> NoReturn:
        raise ReadOnlyError(
            f"{path} below {self.path} belongs to others and can only be read",
            kind=ErrorKind.READ_ONLY_STORAGE,
        )
