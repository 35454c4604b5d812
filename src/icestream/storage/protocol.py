"""The port to object storage: the few verbs that everything above is written against."""

import asyncio
import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from icestream.storage.retries import RetryPolicy


@dataclass(frozen=True, slots=True)
class Version:
    """The state of one object, as its store names it; compare only through `same_as`."""

    etag: str | None = None
    """ETag with the surrounding quotes taken off: stores disagree about them. A weak one keeps
    them, after its `W/`."""
    generation: str | None = None
    """Generation or version id, for stores that condition writes on it."""

    def same_as(self, other: "Version") -> bool:
        """Tell whether both name the same state of the object."""
        if self.generation is not None and other.generation is not None:
            return self.generation == other.generation
        return self.etag is not None and self.etag == other.etag


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or a head request says about one object."""

    path: str
    """Path below the root of the storage, without a leading slash."""
    size_bytes: int
    last_modified: datetime
    version: Version = field(default_factory=Version)


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What became of a bulk delete."""

    deleted: int
    """Objects that are gone, including those that were gone before."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Path to reason, for objects that are still there."""


ByteRange = tuple[int, int]
"""Half-open range of bytes `[start, end)`."""


@dataclass(frozen=True, slots=True)
class StorageObjectInfo:
    """One line of `Storage.list_objects_metadata`."""

    key: str
    size_bytes: int
    created_at: datetime


class Storage(ABC):
    """Bytes under paths, below one root. Thread-safe and picklable.

    Errors: `NotFoundError` (kind OBJECT_NOT_FOUND) for absent objects, `AlreadyExistsError` for a
    create that came second, `ConflictError` (kind PRECONDITION_FAILED) for a replace that came
    second, `ObjectChangedError` for a read that must find an object unchanged, `ReadOnlyError`,
    and `StorageError` for everything the store itself does wrong.
    """

    reads_inline: bool = False
    """True when a read is a system call or less, cheaper than a thread or an await."""
    read_only: bool = False

    @abstractmethod
    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it; a range past the end is a StorageError."""

    @abstractmethod
    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and the version of exactly these bytes."""

    @abstractmethod
    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if it is still as it was; in one request.

        Args:
            path: Of the object.
            byte_range: The part that is wanted; None for all of it.
            etag: What the object must have, with quotes or without; decides if given.
            not_after: The object must not have changed after this second; one that changed within
                it passes. None like `etag` compares nothing.

        Raises:
            ObjectChangedError: The object was changed.
            StorageError: The store does not tell (kind PRECONDITIONS_IGNORED).
        """

    @abstractmethod
    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object, neighbours fetched together."""

    @abstractmethod
    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""

    @abstractmethod
    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Write the object, whatever was there before."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Create the object; a lost answer is resolved by reading back.

        Raises:
            AlreadyExistsError: The object exists, and somebody else wrote it.
        """

    @abstractmethod
    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Replace the object if it is still at `version`; a lost answer is resolved by reading.

        Raises:
            ConflictError: The object has another version, or is gone.
            CommitUnknownError: The answer was lost, and what is there now does not tell whether
                this write came before it.
        """

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`, in no promised order.

        `prefix` is the whole text before the names that matter: empty, or ending in a slash.
        """

    @abstractmethod
    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Delete objects in bulk; absent ones count as deleted."""

    def check_conditional_writes(self) -> None:  # noqa: B027 - backends that cannot fail inherit it
        """Make sure, once per storage, that the store honours preconditions.

        Raises:
            StorageError: It ignores them (kind PRECONDITIONS_IGNORED): commits could be lost.
        """

    @property
    def backend(self) -> "Storage":
        """The storage that does the work, behind whatever wraps it."""
        return self

    def with_retries(self, retry: RetryPolicy) -> "Storage":
        """Return the same storage with another patience; local ones need none."""
        del retry
        return self

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Await `get`; remote backends do it without a thread."""
        return await asyncio.to_thread(self.get, path, byte_range)

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Await `get_if_unchanged`; remote backends do it without a thread."""
        return await asyncio.to_thread(
            self.get_if_unchanged, path, byte_range, etag=etag, not_after=not_after
        )

    async def put_async(self, path: str, data: bytes) -> Version:
        """Await `put`; remote backends do it without a thread."""
        return await asyncio.to_thread(self.put, path, data)

    def list_objects(
        self, settings: object = None, prefix: str | None = None
    ) -> builtins.list[tuple[str, int]]:
        """List keys and sizes; `settings` is accepted for icechunk's sake and changes nothing."""
        del settings
        return [(info.path, info.size_bytes) for info in self.list(prefix or "")]

    def list_objects_metadata(
        self, settings: object = None, prefix: str | None = None
    ) -> builtins.list[StorageObjectInfo]:
        """List keys, sizes and times; `settings` is accepted for icechunk's sake."""
        del settings
        return [
            StorageObjectInfo(info.path, info.size_bytes, info.last_modified)
            for info in self.list(prefix or "")
        ]
