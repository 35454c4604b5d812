"""Objects in a remote store, through obstore.

obstore repeats what is safe to repeat: reads, cut bodies, unconditional writes, refusals. Here is
what it leaves to its caller: conditional writes whose answer was lost, cut listings, bulk deletes.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import batched
from typing import Any
from weakref import WeakSet

from icestream.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    ErrorKind,
    IcestreamError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from icestream.storage.addresses import Address, Purpose
from icestream.storage.conditions import ReadCondition
from icestream.storage.keys import check_key, decode_key, encode_key, encode_prefix
from icestream.storage.listing import METAS, resumed_pages
from icestream.storage.obstore_library import failures, library
from icestream.storage.preconditions import check_preconditions
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    Version,
)
from icestream.storage.ranges import check_range, cut_out, is_empty, merged_ranges, whole_range
from icestream.storage.retries import RetryPolicy
from icestream.storage.translation import (
    PASSING,
    Failure,
    classify,
    safe_text,
    shown_cause,
    translate,
)
from icestream.storage.versions import state_of, update_mode, version_of

_MULTIPART_BYTES = 100 << 20
_PART_BYTES = 16 << 20
_LIST_PAGE = 1000
_MAX_GAP_BYTES = 1 << 20
_DELETE_BATCH = 1000  # the most that S3 takes in one request
_DELETE_THREADS = 16


class ObjectStorage(Storage):
    """Objects below an address on S3, Google Cloud Storage, Azure Blob Storage or a web server.

    Clients are made when they are first needed, once, and again in a forked child. Pickles hold
    the address with its credentials, never a client.
    """

    def __init__(
        self, address: Address, *, retry: RetryPolicy | None = None, read_only: bool = False
    ) -> None:
        self._address = address
        self._retry = retry or RetryPolicy()
        self.read_only = read_only
        self._preconditions_hold = False
        self._start_fresh()
        _live.add(self)

    def _start_fresh(self) -> None:
        self._clients: dict[Purpose, Any] = {}
        self._lock = threading.Lock()

    @property
    def address(self) -> Address:
        """Where the objects are."""
        return self._address

    @property
    def retry(self) -> RetryPolicy:
        """How patiently requests are repeated."""
        return self._retry

    def with_retries(self, retry: RetryPolicy) -> "ObjectStorage":
        """Return the same storage with another patience."""
        return type(self)(self._address, retry=retry, read_only=self.read_only)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    def __getstate__(self) -> dict[str, object]:
        hidden = {"_clients", "_lock"}
        return {name: value for name, value in vars(self).items() if name not in hidden}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._start_fresh()
        _live.add(self)

    # reading

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it; a range past the end is a StorageError."""
        key = self._key(path)
        client = self._client(Purpose.READ)
        if byte_range is not None and is_empty(path, byte_range):
            return b""
        try:
            if byte_range is None:
                return bytes(library().get(client, key).bytes())
            start, end = byte_range
            part = library().get_range(client, key, start=start, end=end)
        except failures() as error:
            raise self._error(error, "read", path) from shown_cause(error)
        return whole_range(path, byte_range, bytes(part))

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and the version of exactly these bytes."""
        key = self._key(path)
        client = self._client(Purpose.READ)
        try:
            result = library().get(client, key)
            return bytes(result.bytes()), version_of(result.meta)
        except failures() as error:
            raise self._error(error, "read", path) from shown_cause(error)

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if it is still as it was; in one request."""
        condition = ReadCondition.of(etag, not_after)
        if condition is None:
            return self.get(path, byte_range)
        key = self._key(path)
        client = self._client(Purpose.READ)
        if byte_range is not None and is_empty(path, byte_range):
            return b""
        try:
            result = library().get(client, key, options=condition.get_options(byte_range))
            condition.require(self._place(path), *state_of(result.meta))
            data = bytes(result.bytes())
        except failures() as error:
            refusal = self._refused_read(error, path, condition)
            raise refusal from shown_cause(error)
        return data if byte_range is None else whole_range(path, byte_range, data)

    def _refused_read(
        self, error: BaseException, path: str, condition: ReadCondition
    ) -> IcestreamError:
        """Return what a failed conditional read means; what is there now may decide."""
        failure = classify(error)
        if failure not in {Failure.PRECONDITION, Failure.PAST_END}:
            return self._error(error, "read", path)
        found: str | datetime | None = None
        try:
            info = self.head(path)
            found = condition.compared(info.version.etag, info.last_modified)
        except NotFoundError as gone:
            return gone  # Azure calls that a failed condition
        except IcestreamError as silent:
            error.add_note(f"what is there now is not known either: {silent}")
        refused = failure is Failure.PRECONDITION
        if refused or (found is not None and not condition.holds(found)):
            return condition.changed(self._place(path), found)
        return self._error(error, "read", path)

    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object, neighbours fetched together."""
        key = self._key(path)
        client = self._client(Purpose.READ)
        for byte_range in byte_ranges:
            check_range(path, byte_range)
        merged = merged_ranges(byte_ranges, _MAX_GAP_BYTES)
        starts, ends = [start for start, _ in merged], [end for _, end in merged]
        try:
            # obstore would merge as well, but panics when the object ends inside a merged range
            parts = library().get_ranges(client, key, starts=starts, ends=ends, coalesce=0)
        except failures() as error:
            raise self._error(error, "read", path) from shown_cause(error)
        views = [memoryview(part) for part in parts]
        return [cut_out(path, byte_range, starts, views) for byte_range in byte_ranges]

    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""
        key = self._key(path)
        client = self._client(Purpose.READ)
        try:
            meta = library().head(client, key)
        except failures() as error:
            raise self._error(error, "look at", path) from shown_cause(error)
        return self._info(meta)

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it, on whatever event loop runs."""
        key = self._key(path)
        client = self._client(Purpose.READ)
        if byte_range is not None and is_empty(path, byte_range):
            return b""
        try:
            if byte_range is None:
                result = await library().get_async(client, key)
                return bytes(await result.bytes_async())
            start, end = byte_range
            part = await library().get_range_async(client, key, start=start, end=end)
        except failures() as error:
            raise self._error(error, "read", path) from shown_cause(error)
        return whole_range(path, byte_range, bytes(part))

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return what `get_if_unchanged` returns, on whatever event loop runs."""
        condition = ReadCondition.of(etag, not_after)
        if condition is None:
            return await self.get_async(path, byte_range)
        key = self._key(path)
        client = self._client(Purpose.READ)
        if byte_range is not None and is_empty(path, byte_range):
            return b""
        try:
            options = condition.get_options(byte_range)
            result = await library().get_async(client, key, options=options)
            condition.require(self._place(path), *state_of(result.meta))
            data = bytes(await result.bytes_async())
        except failures() as error:
            refusal = await asyncio.to_thread(self._refused_read, error, path, condition)
            raise refusal from shown_cause(error)
        return data if byte_range is None else whole_range(path, byte_range, data)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`, in no promised order."""
        encoded = encode_prefix(prefix) if self._address.encodes_keys else prefix
        # obstore compares whole path segments, so the last one is compared here
        folder = encoded.rpartition("/")[0]
        try:
            pages = resumed_pages(lambda offset: self._pages(folder, offset), self._retry, METAS)
            for page in pages:
                yield from (self._info(meta) for meta in page if meta["path"].startswith(encoded))
        except failures() as error:
            raise self._error(error, "list", prefix) from shown_cause(error)

    def _pages(self, folder: str, offset: str | None) -> Iterator[Any]:
        client = self._client(Purpose.READ)
        pages: Iterator[Any] = library().list(
            client, folder or None, offset=offset, chunk_size=_LIST_PAGE
        )
        return pages

    # writing

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Write the object, whatever was there before."""
        key = self._key(path)
        client = self._writer(Purpose.WRITE)
        try:
            result = library().put(client, key, data, **_put_options(data, content_type))
        except failures() as error:
            raise self._error(error, "write", path) from shown_cause(error)
        return version_of(result)

    async def put_async(self, path: str, data: bytes) -> Version:
        """Write the object on whatever event loop runs."""
        key = self._key(path)
        client = self._writer(Purpose.WRITE)
        try:
            result = await library().put_async(client, key, data, **_put_options(data, None))
        except failures() as error:
            raise self._error(error, "write", path) from shown_cause(error)
        return version_of(result)

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Create the object; a lost answer is resolved by reading back.

        Raises:
            AlreadyExistsError: The object exists, and somebody else wrote it.
            CommitUnknownError: The answer was lost, and reading back failed too.
        """
        try:
            return self._put_conditionally(path, data, "create", content_type)
        except ConflictError as error:
            raise AlreadyExistsError(f"{self._place(path)} exists already") from error

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Replace the object if it is still at `version`; a lost answer is resolved by reading.

        Raises:
            ConflictError: The object has another version, or is gone.
            CommitUnknownError: The answer was lost, and what is there now does not tell whether
                this write came before it.
        """
        try:
            return self._put_conditionally(path, data, update_mode(version), content_type)
        except (AlreadyExistsError, NotFoundError) as error:
            raise ConflictError(
                f"{self._place(path)} is gone or was replaced by another writer",
                kind=ErrorKind.PRECONDITION_FAILED,
            ) from error

    def _put_conditionally(
        self, path: str, data: bytes, mode: object, content_type: str | None
    ) -> Version:
        """Send a conditional write until it is answered.

        An unanswered one may have been executed. Sending it again is safe, because its condition
        holds at most once; but then "the condition failed" may mean that it failed because of
        ourselves, and the content tells. Equal content counts as ours: what a repository writes
        conditionally holds random ids, and if another writer had put the same bytes there, the
        state would be the one that was asked for.
        """
        key = self._key(path)
        client = self._writer(Purpose.WRITE_ONCE)
        options = {**_put_options(data, content_type), "mode": mode, "use_multipart": False}
        lost: BaseException | None = None
        failure: BaseException | None = None
        for delay_s in self._retry.delays_s():
            time.sleep(delay_s)
            try:
                return version_of(library().put(client, key, data, **options))
            except failures() as error:
                failure = error
            outcome = classify(failure)
            if outcome is Failure.LOST:
                lost = failure
            elif outcome is not Failure.THROTTLED:
                break
        return self._settle(path, data, failure, lost)

    def _settle(
        self, path: str, data: bytes, failure: BaseException | None, lost: BaseException | None
    ) -> Version:
        """Find out what became of a conditional write that was not confirmed."""
        if failure is None:
            raise StorageError(f"no try was allowed to write {self._place(path)}")
        refused = classify(failure) in {Failure.PRECONDITION, Failure.EXISTS, Failure.NOT_FOUND}
        if lost is None or not (refused or failure is lost):
            raise self._error(failure, "write", path) from shown_cause(failure)
        try:
            found, version = self.get_versioned(path)
        except IcestreamError as error:
            raise self._unknown(path, "and reading back failed") from error
        if found == data:
            return version
        if classify(failure) is Failure.EXISTS:
            raise self._error(failure, "write", path) from shown_cause(failure)
        raise self._unknown(path, "and another version is there") from shown_cause(lost)

    def _unknown(self, path: str, reason: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"no answer came to the write of {self._place(path)}, {reason}: it may or may not have "
            "taken effect before; read it again before you repeat the change"
        )

    def check_conditional_writes(self) -> None:
        """Make sure, once per storage, that the store honours preconditions.

        Raises:
            StorageError: It ignores them (kind PRECONDITIONS_IGNORED): commits could be lost.
        """
        if not self._preconditions_hold:
            check_preconditions(self, self._address.url)
            self._preconditions_hold = True

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Delete objects in bulk; absent ones count as deleted."""
        # deleting twice does no harm, so lost answers are simply asked for again
        client = self._writer(Purpose.WRITE_ONCE)
        deleted = 0
        failed: dict[str, str] = {}
        for batch in batched(paths, _DELETE_BATCH):
            keys = {self._key(path): path for path in batch}
            left = self._delete_batch(client, list(keys))
            failed.update({keys[key]: reason for key, reason in left.items()})
            deleted += len(batch) - len(left)
        return DeleteResult(deleted, failed)

    def _delete_batch(self, client: Any, keys: Sequence[str]) -> dict[str, str]:
        """Delete together if the store can; else one by one, to learn which ones fail."""
        error = self._delete_patiently(client, keys)
        if error is None:
            return {}
        outcome = classify(error)
        if outcome in {Failure.DENIED, Failure.NO_BUCKET}:
            raise self._error(error, "delete", "objects") from shown_cause(error)
        if outcome in PASSING:
            return dict.fromkeys(keys, safe_text(error))
        with ThreadPoolExecutor(_DELETE_THREADS) as threads:
            errors = threads.map(lambda key: self._delete_patiently(client, [key]), keys)
            return {
                key: safe_text(error)
                for key, error in zip(keys, errors, strict=True)
                if error is not None and classify(error) is not Failure.NOT_FOUND
            }

    def _delete_patiently(self, client: Any, keys: Sequence[str]) -> BaseException | None:
        """Delete, trying again what may pass; return what went wrong in the end."""
        last: BaseException | None = None
        for delay_s in self._retry.delays_s():
            time.sleep(delay_s)
            try:
                library().delete(client, keys)
            except failures() as error:
                last = error
                if classify(error) not in PASSING:
                    return error
            else:
                return None
        return last

    # clients, names, errors

    @property
    def reader(self) -> Any:
        """The client of obstore that reads."""
        return self._client(Purpose.READ)

    def _client(self, purpose: Purpose) -> Any:
        client = self._clients.get(purpose)
        return client if client is not None else self._make_client(purpose)

    def _make_client(self, purpose: Purpose) -> Any:
        with self._lock:
            if purpose not in self._clients:
                try:
                    self._clients[purpose] = self._address.client(library(), purpose, self._retry)
                except failures() as error:
                    raise StorageError(
                        f"the settings for {self._address.url} make no client: {safe_text(error)}",
                        kind=ErrorKind.STORAGE_CONFIG,
                    ) from shown_cause(error)
            return self._clients[purpose]

    def _writer(self, purpose: Purpose) -> Any:
        if self.read_only:
            raise ReadOnlyError(
                f"{self._address.url} can only be read", kind=ErrorKind.READ_ONLY_STORAGE
            )
        return self._client(purpose)

    def _key(self, path: str) -> str:
        if self._address.encodes_keys:
            return encode_key(path)
        check_key(path)
        return path

    def _info(self, meta: Any) -> ObjectInfo:
        key = meta["path"]
        path = decode_key(key) if self._address.encodes_keys else key
        return ObjectInfo(path, meta["size"], meta["last_modified"], version_of(meta))

    def _place(self, path: str) -> str:
        return f"{path} in {self._address.url}" if path else self._address.url

    def _error(self, error: BaseException, action: str, path: str) -> IcestreamError:
        return translate(error, action, self._place(path))


def _put_options(data: bytes, content_type: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "use_multipart": len(data) > _MULTIPART_BYTES,
        "chunk_size": _PART_BYTES,
    }
    if content_type is not None:
        options["attributes"] = {"Content-Type": content_type}
    return options


_live: WeakSet[ObjectStorage] = WeakSet()
_abandoned: list[object] = []
"""Clients of a parent process: ending them in a child could wait for threads it does not have."""


def _after_fork() -> None:
    for storage in list(_live):
        _abandoned.append(storage._clients)  # noqa: SLF001 - the module's own class
        storage._start_fresh()  # noqa: SLF001


os.register_at_fork(after_in_child=_after_fork)
