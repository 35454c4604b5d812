"""The bytes of virtual chunks: what a repository holds to read them."""

import asyncio
import os
import weakref
from asyncio import AbstractEventLoop
from functools import partial

from icestream.errors import IcestreamError
from icestream.model.chunk_refs import VirtualRef
from icestream.model.container_sets import ContainerSet
from icestream.storage.protocol import ByteRange, Storage
from icestream.virtual.access import Access
from icestream.virtual.fetcher import (
    UNCHECKED,
    Checksum,
    absolute_range,
    checksum_of,
    fetch,
    fetch_async,
)
from icestream.virtual.read_ahead import Load, ReadAhead, Wanted
from icestream.virtual.read_settings import ReadSettings
from icestream.virtual.resolver import Resolver, StorageOpener, Target
from icestream.virtual.sequences import RowHint
from icestream.virtual.spans import ObjectKey, Span

_LARGE_SHARE = 8
"""A range of more than this part of a request, as a divisor, gains nothing by company."""


class VirtualReader:
    """Reads virtual chunks, for all sessions, threads and event loops of a repository.

    Picklable: clients and cached bytes stay behind.
    """

    def __init__(
        self,
        containers: ContainerSet,
        access: Access,
        repository_storage: Storage,
        settings: ReadSettings | None = None,
        *,
        opener: StorageOpener | None = None,
    ) -> None:
        self.settings = settings or ReadSettings()
        self._resolver = Resolver(containers, access, repository_storage, opener)
        self._repository_storage = repository_storage
        self._opener = opener
        self._start_fresh()
        _live.add(self)

    def _start_fresh(self) -> None:
        self._ahead = ReadAhead(self.settings)
        self._turns: dict[tuple[AbstractEventLoop, ObjectKey], _Turn] = {}

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(VirtualReader, opener=self._opener)
        return make, (self.containers, self.access, self._repository_storage, self.settings)

    @property
    def access(self) -> Access:
        """What the reader has consented to."""
        return self._resolver.access

    @property
    def containers(self) -> ContainerSet:
        """The containers in force."""
        return self._resolver.containers

    @property
    def cached_bytes(self) -> int:
        """Bytes in memory that were fetched ahead."""
        return self._ahead.cached_bytes

    def resolve(self, location: str) -> Target:
        """Return the object of a location, and the client that reads it; no request is sent.

        Raises:
            AccessError: No container covers the location, or the reader has not consented.
            InvalidInputError: It names no object, or not unmistakably.
        """
        return self._resolver.resolve(location)

    def with_settings(self, settings: ReadSettings) -> "VirtualReader":
        """Return a reader of the same places that reads in another way."""
        return VirtualReader(
            self.containers, self.access, self._repository_storage, settings, opener=self._opener
        )

    def read(
        self, ref: VirtualRef, byte_range: ByteRange | None = None, hint: RowHint | None = None
    ) -> bytes:
        """Return the bytes of a chunk, or a range of them.

        Args:
            ref: Where the chunk is.
            byte_range: The part that is wanted, counted from the start of the chunk.
            hint: The table and row of the reference; reading ahead needs it.

        Raises:
            AccessError: No container covers the location, or the reader has not consented.
            ObjectChangedError: The object is not the one that was recorded.
            StorageError: The object is gone, too short, or not readable.
        """
        target = self._resolver.resolve(ref.location)
        start, end = absolute_range(target, ref, byte_range)
        checksum = self._checksum(ref)
        if target.storage.reads_inline or self._is_large(end - start):
            return fetch(target, (start, end), checksum)
        key = _object_key(ref)
        span = self._ahead.find(key, start, end)
        if span is None:
            wanted = Wanted(start, end, hint if byte_range is None else None)
            [span] = self._ahead.plan(key, _loader(target, checksum), [wanted])
        if span is not None:
            try:
                return span.cut(start, end)
            except IcestreamError:
                span = None  # what was wrong with others need not be wrong with this one
        return fetch(target, (start, end), checksum)

    async def read_async(
        self, ref: VirtualRef, byte_range: ByteRange | None = None, hint: RowHint | None = None
    ) -> bytes:
        """Await the bytes of a chunk, or a range of them; see `read`.

        Requests that are made in the same turn of an event loop are merged.
        """
        target = self._resolver.resolve(ref.location)
        start, end = absolute_range(target, ref, byte_range)
        checksum = self._checksum(ref)
        if target.storage.reads_inline:
            return fetch(target, (start, end), checksum)
        if self._is_large(end - start):
            return await fetch_async(target, (start, end), checksum)
        key = _object_key(ref)
        span = self._ahead.find(key, start, end)
        if span is None:
            wanted = Wanted(start, end, hint if byte_range is None else None)
            span = await self._next_turn(key, _loader(target, checksum), wanted)
        if span is not None:
            try:
                if not span.future.done():
                    await asyncio.shield(asyncio.wrap_future(span.future))
                return span.cut(start, end)
            except IcestreamError:
                span = None  # what was wrong with others need not be wrong with this one
        return await fetch_async(target, (start, end), checksum)

    def _checksum(self, ref: VirtualRef) -> Checksum:
        return checksum_of(ref) if self.settings.check_changes else UNCHECKED

    def _is_large(self, size: int) -> bool:
        return size * _LARGE_SHARE > self.settings.max_request_bytes

    async def _next_turn(self, key: ObjectKey, load: Load, wanted: Wanted) -> Span | None:
        """Wait for others that ask in the same turn of the event loop, then plan for all."""
        loop = asyncio.get_running_loop()
        turn = self._turns.get((loop, key))
        if turn is None:
            turn = self._turns[loop, key] = _Turn(loop)
            loop.call_soon(self._plan_turn, loop, key, load)
        turn.wanted.append(wanted)
        position = len(turn.wanted) - 1
        return (await asyncio.shield(turn.spans))[position]

    def _plan_turn(self, loop: AbstractEventLoop, key: ObjectKey, load: Load) -> None:
        turn = self._turns.pop((loop, key))
        try:
            turn.spans.set_result(self._ahead.plan(key, load, turn.wanted))
        except BaseException as error:
            turn.spans.set_exception(error)
            raise


class _Turn:
    """What is asked of one object in one turn of an event loop."""

    __slots__ = ("spans", "wanted")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.wanted: list[Wanted] = []
        self.spans: asyncio.Future[list[Span | None]] = loop.create_future()


def _object_key(ref: VirtualRef) -> ObjectKey:
    return ref.location, ref.etag, ref.last_modified


def _loader(target: Target, checksum: Checksum) -> Load:
    return partial(_load, target, checksum)


def _load(target: Target, checksum: Checksum, start: int, end: int) -> bytes:
    return fetch(target, (start, end), checksum)


_live: "weakref.WeakSet[VirtualReader]" = weakref.WeakSet()


def _after_fork() -> None:
    """Start afresh in a forked child: locks and threads of the parent are of no use there."""
    for reader in list(_live):
        reader._start_fresh()  # noqa: SLF001  the module's own class


os.register_at_fork(after_in_child=_after_fork)
