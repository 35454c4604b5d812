"""Objects in the memory of this process, for tests and small experiments."""

import itertools
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    StorageError,
)
from icestream.storage.conditions import ReadCondition
from icestream.storage.keys import check_key
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    Version,
)
from icestream.storage.ranges import slice_range


@dataclass(frozen=True, slots=True)
class _StoredObject:
    data: bytes
    modified: datetime
    version: Version


class InMemoryStorage(Storage):
    """A dictionary with the semantics of an object store; gone with the last reference to it.

    Pickling passes a reference, not the data: it can be resolved in the same process only.
    """

    reads_inline = True

    def __init__(self) -> None:
        self._objects: dict[str, _StoredObject] = {}
        self._lock = threading.Lock()
        self._serial = itertools.count(1)
        self._id = uuid.uuid4().hex
        _live[self._id] = self

    def __repr__(self) -> str:
        return f"InMemoryStorage({len(self._objects)} objects)"

    def __reduce__(self) -> tuple[object, ...]:
        return _find_live, (self._id, os.getpid())

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it; a range past the end is a StorageError."""
        data = self._stored(path).data
        return data if byte_range is None else slice_range(path, data, byte_range)

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and the version of exactly these bytes."""
        stored = self._stored(path)
        return stored.data, stored.version

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if it is still as it was."""
        stored = self._stored(path)
        if condition := ReadCondition.of(etag, not_after):
            condition.require(path, stored.version.etag, stored.modified)
        return stored.data if byte_range is None else slice_range(path, stored.data, byte_range)

    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object."""
        data = self._stored(path).data
        return [slice_range(path, data, byte_range) for byte_range in byte_ranges]

    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""
        stored = self._stored(path)
        return ObjectInfo(path, len(stored.data), stored.modified, stored.version)

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Write the object, whatever was there before."""
        del content_type
        check_key(path)
        with self._lock:
            return self._store(path, data)

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Create the object.

        Raises:
            AlreadyExistsError: The object exists.
        """
        del content_type
        check_key(path)
        with self._lock:
            if path in self._objects:
                raise AlreadyExistsError(f"{path} exists already in {self!r}")
            return self._store(path, data)

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Replace the object if it is still at `version`.

        Raises:
            ConflictError: The object has another version, or is gone.
        """
        del content_type
        with self._lock:
            current = self._objects.get(path)
            if current is None or not current.version.same_as(version):
                raise ConflictError(
                    f"{path} is gone or was replaced by another writer",
                    kind=ErrorKind.PRECONDITION_FAILED,
                )
            return self._store(path, data)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`, in no promised order."""
        with self._lock:
            snapshot = list(self._objects.items())
        for path, stored in snapshot:
            if path.startswith(prefix):
                yield ObjectInfo(path, len(stored.data), stored.modified, stored.version)

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Delete objects; absent ones count as deleted."""
        wanted = list(paths)
        with self._lock:
            for path in wanted:
                self._objects.pop(path, None)
        return DeleteResult(len(wanted))

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return `get` at once."""
        return self.get(path, byte_range)

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return `get_if_unchanged` at once."""
        return self.get_if_unchanged(path, byte_range, etag=etag, not_after=not_after)

    async def put_async(self, path: str, data: bytes) -> Version:
        """Return `put` at once."""
        return self.put(path, data)

    def _stored(self, path: str) -> _StoredObject:
        try:
            return self._objects[path]
        except KeyError:
            raise NotFoundError(
                f"there is no object {path}", kind=ErrorKind.OBJECT_NOT_FOUND
            ) from None

    def _store(self, path: str, data: bytes) -> Version:
        version = Version(etag=str(next(self._serial)))
        self._objects[path] = _StoredObject(bytes(data), datetime.now(UTC), version)
        return version


_live: WeakValueDictionary[str, InMemoryStorage] = WeakValueDictionary()


def _find_live(storage_id: str, process_id: int) -> InMemoryStorage:
    found = _live.get(storage_id)
    if found is None or process_id != os.getpid():
        raise StorageError(
            "an in-memory storage can be unpickled only in the process that made it, while it is "
            "alive: use local or remote storage to share a repository between processes",
            kind=ErrorKind.PICKLE,
        )
    return found


def _renew_locks() -> None:
    """Give a forked child free locks: their holders are threads that it does not have."""
    for storage in list(_live.values()):
        storage._lock = threading.Lock()  # noqa: SLF001 - the module's own class


os.register_at_fork(after_in_child=_renew_locks)
