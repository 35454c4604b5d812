"""A folder of a storage, as a storage of its own."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from icestream.errors import ErrorKind, InvalidInputError
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    Version,
)
from icestream.storage.retries import RetryPolicy


class SubfolderStorage(Storage):
    """Everything below one folder of another storage, under shorter paths."""

    def __init__(self, parent: Storage, folder: str) -> None:
        """Wrap a storage.

        Args:
            parent: The storage that holds the folder.
            folder: Its path, without slashes at the ends.

        Raises:
            InvalidInputError: The path is empty, or begins or ends with a slash.
        """
        if not folder or folder != folder.strip("/"):
            raise InvalidInputError(
                f"{folder!r} is no folder of a storage: leave out slashes at its ends",
                kind=ErrorKind.BAD_PREFIX,
            )
        self._parent = parent
        self._folder = f"{folder}/"
        self.reads_inline = parent.reads_inline
        self.read_only = parent.read_only

    def __repr__(self) -> str:
        return f"{self._parent!r}/{self._folder.rstrip('/')}"

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it."""
        return self._parent.get(self._folder + path, byte_range)

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and the version of exactly these bytes."""
        return self._parent.get_versioned(self._folder + path)

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if it is still as it was."""
        return self._parent.get_if_unchanged(
            self._folder + path, byte_range, etag=etag, not_after=not_after
        )

    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object."""
        return self._parent.get_ranges(self._folder + path, byte_ranges)

    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""
        return replace(self._parent.head(self._folder + path), path=path)

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Write the object, whatever was there before."""
        return self._parent.put(self._folder + path, data, content_type=content_type)

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Create the object."""
        return self._parent.put_if_absent(self._folder + path, data, content_type=content_type)

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Replace the object if it is still at `version`."""
        return self._parent.put_if_version(
            self._folder + path, data, version, content_type=content_type
        )

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`."""
        for info in self._parent.list(self._folder + prefix):
            yield replace(info, path=info.path.removeprefix(self._folder))

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Delete objects in bulk; absent ones count as deleted."""
        result = self._parent.delete_many(self._folder + path for path in paths)
        failed = {path.removeprefix(self._folder): why for path, why in result.failed.items()}
        return DeleteResult(result.deleted, failed)

    def check_conditional_writes(self) -> None:
        """Make sure that the store honours preconditions."""
        self._parent.check_conditional_writes()

    @property
    def backend(self) -> Storage:
        """The storage that does the work."""
        return self._parent.backend

    def with_retries(self, retry: RetryPolicy) -> Storage:
        """Return the same folder with another patience."""
        return SubfolderStorage(self._parent.with_retries(retry), self._folder.rstrip("/"))

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Await the object, or `byte_range` of it."""
        return await self._parent.get_async(self._folder + path, byte_range)

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Await the object, or `byte_range` of it, if it is still as it was."""
        return await self._parent.get_if_unchanged_async(
            self._folder + path, byte_range, etag=etag, not_after=not_after
        )

    async def put_async(self, path: str, data: bytes) -> Version:
        """Await the writing of the object."""
        return await self._parent.put_async(self._folder + path, data)
