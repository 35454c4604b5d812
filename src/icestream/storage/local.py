"""Objects as plain files below one directory, with a real compare-and-swap.

Names of the form `<text>#<digits>` are never objects: the Rust object_store crate hides them from
its listings, so temporary and lock files under such names are invisible to icechunk too.
"""

# Paths are strings here: making a Path costs more than reading a small chunk.
# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH116, PTH118, PTH120

import errno
import fcntl
import hashlib
import os
import random
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from icestream.storage.conditions import ReadCondition
from icestream.storage.keys import decode_key, encode_key, encode_prefix
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    Version,
)
from icestream.storage.ranges import check_range, range_past_end

SyncPolicy = Literal["never", "commits", "always"]

_HIDDEN = re.compile(r"#[0-9]+$")
_LOCK_NAME = "lock#0"
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_STAGE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_FILE_MODE = 0o666  # the user's umask decides
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NANOSECONDS = 1_000_000_000
_INLINE_PUT_BYTES = 1 << 20
_TRUSTED_BYTES = 1 << 20
"""Ranges that are longer are compared with the size of the file first."""


class LocalStorage(Storage):
    """Objects as files below `path`.

    Versions: `etag` is inode, modification time and size, as icechunk's local backend has it. That
    token can repeat, because a freed inode is soon taken again and the clock of a file system ticks
    every few milliseconds. So the versions that a compare-and-swap compares (`get_versioned` and
    conditional puts) carry a hash of the content as `generation` as well.

    `sync` says what is forced to the disk before a call returns: "commits" = conditional puts,
    "always" = every object, "never" = nothing. See docs/explanation/local-storage.md.
    """

    reads_inline = True

    def __init__(self, path: str | os.PathLike[str], *, sync: SyncPolicy = "commits") -> None:
        self._root = os.path.abspath(os.fspath(path))
        self._sync = sync
        if sync not in {"never", "commits", "always"}:
            raise InvalidInputError(f"sync is {sync!r}; give 'never', 'commits' or 'always'")

    @property
    def path(self) -> str:
        """The absolute path of the root directory."""
        return self._root

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage) and self._root == other._root

    def __hash__(self) -> int:
        return hash(self._root)

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it; a range past the end is a StorageError."""
        fd = self._open(path)
        try:
            if byte_range is None:
                return _read_exactly(fd, os.fstat(fd).st_size, path)
            return _read_range(fd, byte_range, path)
        except OSError as error:
            raise read_error(path, error) from error
        finally:
            os.close(fd)

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and the version of exactly these bytes."""
        fd = self._open(path)
        try:
            status = os.fstat(fd)
            data = _read_exactly(fd, status.st_size, path)
        except OSError as error:
            raise read_error(path, error) from error
        finally:
            os.close(fd)
        return data, _strong_version(status, data)

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if the open file is still as it was."""
        condition = ReadCondition.of(etag, not_after)
        fd = self._open(path)
        try:
            if byte_range is None:
                byte_range = (0, os.fstat(fd).st_size)
            return _read_range(fd, byte_range, path)
        except OSError as error:
            raise read_error(path, error) from error
        finally:
            # after reading, so that a change in place meanwhile does not go unnoticed, and a file
            # that was cut short is called changed
            _close_checked(fd, condition, path)

    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object, opening it once."""
        fd = self._open(path)
        try:
            return [_read_range(fd, byte_range, path) for byte_range in byte_ranges]
        except OSError as error:
            raise read_error(path, error) from error
        finally:
            os.close(fd)

    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""
        try:
            status = os.stat(self._file(path))
        except OSError as error:
            raise read_error(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise _not_found(path)
        return _object_info(path, status)

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Write the object, whatever was there before."""
        del content_type
        target = self._file(path)
        with self._staged(target, data, sync=self._sync == "always") as (staged, status):
            os.replace(staged, target)
        self._sync_directory(target, needed=self._sync == "always")
        return _weak_version(status)

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Create the object; two creators never both succeed.

        Raises:
            AlreadyExistsError: The object exists.
        """
        del content_type
        target = self._file(path)
        with self._staged(target, data, sync=self._sync != "never") as (staged, status):
            try:
                _link_exclusively(staged, target)
            except FileExistsError as error:
                raise AlreadyExistsError(f"{path} exists already in {self!r}") from error
        self._sync_directory(target, needed=self._sync != "never")
        return _strong_version(status, data)

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Replace the object if it is still at `version`, under a lock that all processes share.

        Raises:
            ConflictError: The object has another version, or is gone.
        """
        del content_type
        target = self._file(path)
        self._require_version(path, version)
        with (
            self._staged(target, data, sync=self._sync != "never") as (staged, status),
            _exclusive_lock(os.path.dirname(target)),
        ):
            self._require_version(path, version)
            os.replace(staged, target)
        self._sync_directory(target, needed=self._sync != "never")
        return _strong_version(status, data)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`, in no promised order."""
        stored_prefix = self._stored_prefix(prefix)
        pending = [stored_prefix.rpartition("/")[0]]
        while pending:
            folder = pending.pop()
            for entry in scan_folder(os.path.join(self._root, folder)):
                stored = f"{folder}/{entry.name}" if folder else entry.name
                if not stored.startswith(stored_prefix):
                    continue
                if entry.is_dir():
                    pending.append(stored)
                elif (path := self._path_of(stored)) is not None:
                    yield from _entry_info(path, entry)

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Delete objects; absent ones count as deleted."""
        deleted = 0
        failed: dict[str, str] = {}
        for path in paths:
            try:
                os.unlink(self._file(path))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                deleted += 1
            except OSError as error:
                failed[path] = error.strerror or str(error)
            else:
                deleted += 1
        return DeleteResult(deleted, failed)

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return `get` at once: a thread would cost more than the read."""
        return self.get(path, byte_range)

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return `get_if_unchanged` at once: a thread would cost more than the read."""
        return self.get_if_unchanged(path, byte_range, etag=etag, not_after=not_after)

    async def put_async(self, path: str, data: bytes) -> Version:
        """Await `put`; only large objects are worth a thread."""
        if len(data) <= _INLINE_PUT_BYTES:
            return self.put(path, data)
        return await super().put_async(path, data)

    def _file(self, path: str) -> str:
        return f"{self._root}/{encode_key(path)}"

    def _stored_prefix(self, prefix: str) -> str:
        return encode_prefix(prefix)

    def _path_of(self, stored: str) -> str | None:
        """Return the path of an object by the name of its file; None for files that are none."""
        return None if _HIDDEN.search(stored) else decode_key(stored)

    def _open(self, path: str) -> int:
        try:
            return os.open(self._file(path), _READ_FLAGS)
        except OSError as error:
            raise read_error(path, error) from error

    def _require_version(self, path: str, version: Version) -> None:
        try:
            _, current = self.get_versioned(path)
        except NotFoundError as error:
            raise _conflict(f"{path} is gone") from error
        if not current.same_as(version):
            raise _conflict(f"{path} was replaced by another writer")

    @contextmanager
    def _staged(
        self, target: str, data: bytes, *, sync: bool
    ) -> Iterator[tuple[str, os.stat_result]]:
        """Offer the data as a complete file beside `target`; whatever happens, none stays."""
        staged = os.path.join(os.path.dirname(target), f"tmp#{random.getrandbits(63)}")
        try:
            yield staged, _write_new(staged, data, sync=sync)
        except IcestreamError:
            raise
        except OSError as error:
            raise _write_error(target, error) from error
        finally:
            _remove_if_there(staged)

    def _sync_directory(self, target: str, *, needed: bool) -> None:
        """Make a rename survive a loss of power."""
        if not needed:
            return
        try:
            _fsync(os.open(os.path.dirname(target), _READ_FLAGS))
        except OSError as error:
            raise _write_error(target, error) from error


def _read_exactly(fd: int, size: int, path: str) -> bytes:
    data = os.read(fd, size)
    if len(data) == size:
        return data
    # one system call reads at most 2 GiB, and network file systems may return less
    parts = [data]
    missing = size - len(data)
    while missing and (part := os.read(fd, missing)):
        parts.append(part)
        missing -= len(part)
    if missing:
        raise StorageError(f"{path} lost {missing} bytes while it was read", kind=ErrorKind.IO)
    return b"".join(parts)


def _read_range(fd: int, byte_range: ByteRange, path: str) -> bytes:
    check_range(path, byte_range)
    start, end = byte_range
    if end - start > _TRUSTED_BYTES and end > os.fstat(fd).st_size:
        raise range_past_end(path, byte_range)  # before memory is set aside for it
    data = os.pread(fd, end - start, start)
    while len(data) < end - start:
        part = os.pread(fd, end - start - len(data), start + len(data))
        if not part:
            raise range_past_end(path, byte_range)
        data += part
    return data


def _close_checked(fd: int, condition: ReadCondition | None, path: str) -> None:
    try:
        if condition is not None:
            status = os.fstat(fd)
            if condition.etag is not None:
                condition.require(path, etag_of(status), None)
            elif not condition.holds_at(status.st_mtime_ns // _NANOSECONDS):
                condition.require(path, None, _modified(status))
    finally:
        os.close(fd)


def _write_new(staged: str, data: bytes, *, sync: bool) -> os.stat_result:
    try:
        fd = os.open(staged, _STAGE_FLAGS, _FILE_MODE)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(staged), exist_ok=True)
        fd = os.open(staged, _STAGE_FLAGS, _FILE_MODE)
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])
        if sync:
            os.fsync(fd)
        return os.fstat(fd)
    finally:
        os.close(fd)


def _fsync(fd: int) -> None:
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove_if_there(staged: str) -> None:
    try:
        os.unlink(staged)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _write_error(staged, error) from error


def _link_exclusively(staged: str, target: str) -> None:
    """Give the staged file its name unless that is taken: a hard link is atomic and exclusive."""
    try:
        os.link(staged, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        with _exclusive_lock(os.path.dirname(target)):
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
            os.replace(staged, target)


@contextmanager
def _exclusive_lock(directory: str) -> Iterator[None]:
    """Hold the lock of a directory; `flock` excludes threads and processes alike.

    The lock file stays: removing it would let two holders lock two different files.
    """
    fd = os.open(f"{directory}/{_LOCK_NAME}", _LOCK_FLAGS, _FILE_MODE)
    try:
        _lock(fd, directory)
        try:
            yield
        finally:
            # explicit, because a child forked meanwhile still holds a copy of the descriptor
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def _lock(fd: int, directory: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        raise StorageError(
            f"cannot lock {directory}: {error.strerror}; this file system has no locks, so "
            "commits on it are not safe: use another one, or an object store",
            kind=ErrorKind.IO,
        ) from error


def scan_folder(directory: str) -> list[os.DirEntry[str]]:
    """Return what is in a directory; nothing if it is none."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _storage_error(f"cannot list {directory}", error) from error


def _entry_info(path: str, entry: os.DirEntry[str]) -> Iterator[ObjectInfo]:
    try:
        status = entry.stat()
    except FileNotFoundError:
        return  # deleted since the directory was read
    if stat.S_ISREG(status.st_mode):
        yield _object_info(path, status)


def _object_info(path: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(path, status.st_size, _modified(status), _weak_version(status))


def _modified(status: os.stat_result) -> datetime:
    # from integers: the nearest float of a time just before a full second is that second
    seconds, nanoseconds = divmod(status.st_mtime_ns, _NANOSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanoseconds // 1000)


def etag_of(status: os.stat_result) -> str:
    """Return the ETag of a file, as icechunk's local backend has it."""
    return f"{status.st_ino:x}-{status.st_mtime_ns // 1000:x}-{status.st_size:x}"


def _weak_version(status: os.stat_result) -> Version:
    return Version(etag_of(status))


def _strong_version(status: os.stat_result, data: bytes) -> Version:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return Version(etag_of(status), digest)


def _not_found(path: str) -> NotFoundError:
    return NotFoundError(f"there is no object {path}", kind=ErrorKind.OBJECT_NOT_FOUND)


def _conflict(message: str) -> ConflictError:
    return ConflictError(message, kind=ErrorKind.PRECONDITION_FAILED)


def read_error(path: str, error: OSError) -> IcestreamError:
    """Return the error to raise for a file that cannot be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return _not_found(path)
    return _storage_error(f"cannot read {path}", error)


def _write_error(target: str, error: OSError) -> StorageError:
    return _storage_error(f"cannot write {target}", error)


def _storage_error(message: str, error: OSError) -> StorageError:
    kind = ErrorKind.PERMISSION_DENIED if error.errno in _DENIED else ErrorKind.IO
    remedy = "; free some space" if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return StorageError(f"{message}: {error.strerror or error}{remedy}", kind=kind)
