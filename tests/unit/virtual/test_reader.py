"""Reading virtual chunks: merged requests, windows read ahead, and what goes wrong meanwhile."""

import asyncio
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.unit.virtual.places import (
    LOCATION,
    ForeignStorage,
    World,
    read_row,
    reader_of,
    table_of,
    virtual_ref,
)

from icestream.errors import (
    AccessError,
    ErrorKind,
    InvalidInputError,
    ObjectChangedError,
    StorageError,
)
from icestream.model.chunk_refs import VirtualRef
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ByteRange
from icestream.testing.doubles import CountingStorage, LatentStorage
from icestream.virtual.access import Access
from icestream.virtual.read_settings import ReadSettings
from icestream.virtual.reader import VirtualReader
from icestream.virtual.sequences import RowHint

SIZE = 64
NO_AHEAD = ReadSettings(read_ahead_refs=0)


@cache
def content(count: int, size: int = SIZE, gap: int = 0) -> bytes:
    rng = np.random.default_rng(7)
    return bytes(rng.integers(0, 256, count * (size + gap), np.uint8))


@pytest.fixture
def foreign() -> ForeignStorage:
    storage = ForeignStorage()
    storage.put("data.bin", content(10_000))
    return storage


def expected(row: int, size: int = SIZE) -> bytes:
    return content(10_000)[row * size : (row + 1) * size]


async def read_like_zarr(reader: VirtualReader, table: ChunkTable, rows: range) -> list[bytes]:
    """Read chunks ten at a time, as zarr does."""
    ten = asyncio.Semaphore(10)

    async def one(row: int) -> bytes:
        async with ten:
            return await read_row(reader, table, row)

    return await asyncio.gather(*(one(row) for row in rows))


# -- merging --------------------------------------------------------------------------------------


async def test_neighbours_asked_for_at_once_are_fetched_together(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign, NO_AHEAD), table_of(100, SIZE)

    found = await asyncio.gather(*(read_row(reader, table, row) for row in range(10)))

    assert found == [expected(row) for row in range(10)]
    assert foreign.ranges == [(0, 10 * SIZE)]


async def test_without_hints_neighbours_are_merged_too(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(100, SIZE)

    await asyncio.gather(*(reader.read_async(virtual_ref(table, row)) for row in range(10)))

    assert foreign.ranges == [(0, 10 * SIZE)]


async def test_ranges_that_are_far_apart_are_fetched_one_by_one(foreign: ForeignStorage) -> None:
    settings = ReadSettings(max_gap_bytes=SIZE, read_ahead_refs=0)
    reader, table = reader_of(foreign, settings), table_of(1000, SIZE)

    found = await asyncio.gather(*(read_row(reader, table, row) for row in (0, 5, 7, 900)))

    assert found == [expected(row) for row in (0, 5, 7, 900)]
    assert sorted(filter(None, foreign.ranges)) == [
        (0, SIZE),
        (5 * SIZE, 8 * SIZE),
        (900 * SIZE, 901 * SIZE),
    ]


async def test_no_merged_request_is_larger_than_allowed(foreign: ForeignStorage) -> None:
    settings = ReadSettings(max_request_bytes=8 * SIZE)
    reader, table = reader_of(foreign, settings), table_of(500, SIZE)

    await read_like_zarr(reader, table, range(500))

    assert max(end - start for start, end in filter(None, foreign.ranges)) == 8 * SIZE


async def test_requests_for_the_same_chunk_are_one(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(100, SIZE)

    found = await asyncio.gather(*(read_row(reader, table, 3) for _ in range(5)))

    assert found == [expected(3)] * 5
    assert len(foreign.ranges) == 1


async def test_large_chunks_are_left_alone() -> None:
    foreign = ForeignStorage()
    foreign.put("data.bin", content(20, 3000))
    reader = reader_of(foreign, ReadSettings(max_request_bytes=16_000))
    table = table_of(20, 3000)

    await read_like_zarr(reader, table, range(20))

    assert len(foreign.ranges) == 20


# -- reading ahead --------------------------------------------------------------------------------


async def test_a_whole_array_takes_few_requests(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(10_000, SIZE)

    found = await read_like_zarr(reader, table, range(10_000))

    assert b"".join(found) == content(10_000)
    assert len(foreign.ranges) < 60
    assert foreign.bytes_read == 10_000 * SIZE


async def test_reading_one_by_one_takes_few_requests_too(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(2000, SIZE)

    found = [await read_row(reader, table, row) for row in range(2000)]

    assert b"".join(found) == content(10_000)[: 2000 * SIZE]
    assert len(foreign.ranges) < 20


def test_threads_that_do_not_wait_for_a_loop_read_ahead_as_well(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(2000, SIZE)

    found = [reader.read(virtual_ref(table, row), None, RowHint(table, row)) for row in range(2000)]

    assert b"".join(found) == content(10_000)[: 2000 * SIZE]
    assert len(foreign.ranges) < 20


async def test_random_access_fetches_nothing_but_what_is_asked_for(
    foreign: ForeignStorage,
) -> None:
    reader, table = reader_of(foreign), table_of(10_000, SIZE)
    rows = np.random.default_rng(3).choice(10_000, 200, replace=False).tolist()

    for row in rows:
        assert await read_row(reader, table, row) == expected(row)

    # by chance a few follow each other, and then something is read ahead
    assert len(foreign.ranges) >= 190
    assert foreign.bytes_read < 400 * SIZE


async def test_reading_backwards_fetches_nothing_ahead(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(100, SIZE)

    for row in reversed(range(100)):
        assert await read_row(reader, table, row) == expected(row)

    assert foreign.bytes_read == 100 * SIZE


async def test_a_column_of_a_grid_fetches_nothing_ahead(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign, ReadSettings(max_gap_bytes=0)), table_of(1000, SIZE)

    for row in range(0, 1000, 50):
        await read_row(reader, table, row)

    assert foreign.bytes_read == 20 * SIZE


async def test_several_readers_of_one_array_are_told_apart(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign, ReadSettings(max_gap_bytes=SIZE)), table_of(8000, SIZE)

    async def part(first: int) -> list[bytes]:
        return [await read_row(reader, table, row) for row in range(first, first + 2000)]

    parts = await asyncio.gather(*(part(first) for first in range(0, 8000, 2000)))

    assert b"".join(b"".join(rows) for rows in parts) == content(10_000)[: 8000 * SIZE]
    assert len(foreign.ranges) < 4 * 20


async def test_two_readers_of_the_same_chunks_share_them(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(3000, SIZE)

    both = await asyncio.gather(
        *(read_like_zarr(reader, table, range(3000)) for _ in range(2)),
    )

    assert both[0] == both[1]
    assert foreign.bytes_read < 1.5 * 3000 * SIZE


async def test_references_of_other_objects_in_between_are_passed_over() -> None:
    locations = tuple(f"s3://bucket/{i}.bin" for i in range(4))
    foreign = ForeignStorage()
    for i in range(4):
        foreign.put(f"{i}.bin", content(500))
    reader, table = reader_of(foreign), table_of(2000, SIZE, locations=locations)

    found = await read_like_zarr(reader, table, range(2000))

    assert found == [expected(row // 4) for row in range(2000)]
    assert len(foreign.ranges) < 60
    assert foreign.bytes_read == 2000 * SIZE


async def test_references_far_apart_are_fetched_ahead_in_few_requests_at_a_time() -> None:
    foreign = ForeignStorage()
    foreign.put("data.bin", content(300, SIZE, SIZE))
    reader = reader_of(foreign, ReadSettings(max_gap_bytes=0))
    table = table_of(300, SIZE, gap=SIZE)
    foreign.gate.clear()

    reading = asyncio.ensure_future(read_like_zarr(reader, table, range(300)))
    await asyncio.sleep(0.05)
    in_flight = len(foreign.ranges)
    foreign.gate.set()
    await reading

    assert 10 < in_flight <= 32
    assert foreign.bytes_read == 300 * SIZE


async def test_references_with_other_checksums_are_not_fetched_with_these(
    foreign: ForeignStorage,
) -> None:
    table = table_of(200, SIZE)
    modified = np.full(200, 2**31, np.uint32)
    modified[100:] += 1
    table = replace_columns(table, last_modified=modified)
    reader = reader_of(foreign)

    await read_like_zarr(reader, table, range(90))

    assert max(end for _, end in filter(None, foreign.ranges)) == 100 * SIZE


async def test_parts_of_chunks_are_read_and_nothing_ahead_of_them(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign, ReadSettings(max_gap_bytes=0)), table_of(100, SIZE)

    for row in range(20):
        part = await reader.read_async(virtual_ref(table, row), (8, 16), RowHint(table, row))
        assert part == expected(row)[8:16]

    assert foreign.bytes_read == 20 * 8


async def test_a_part_of_a_chunk_is_taken_from_what_was_fetched_ahead(
    foreign: ForeignStorage,
) -> None:
    reader, table = reader_of(foreign), table_of(100, SIZE)
    await read_like_zarr(reader, table, range(4))
    requests = len(foreign.ranges)

    part = await reader.read_async(virtual_ref(table, 6), (8, 16), RowHint(table, 6))

    assert part == expected(6)[8:16]
    assert len(foreign.ranges) == requests


def test_local_files_are_read_at_once_and_never_ahead(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(content(100))
    prefix = f"file://{tmp_path}/"
    files = VirtualChunkContainer(prefix, ObjectStoreConfig.LocalFileSystem("/"))
    reader = VirtualReader(ContainerSet.of([files]), Access.of({prefix: None}), InMemoryStorage())
    table = table_of(100, SIZE, locations=(f"{prefix}data.bin",))

    found = [reader.read(virtual_ref(table, row), None, RowHint(table, row)) for row in range(100)]

    assert b"".join(found) == content(10_000)[: 100 * SIZE]
    assert reader.cached_bytes == 0


async def test_stores_that_answer_at_once_are_not_read_ahead() -> None:
    foreign = ForeignStorage(inline=True)
    foreign.put("data.bin", content(50))
    reader, table = reader_of(foreign), table_of(50, SIZE)

    await read_like_zarr(reader, table, range(50))

    assert len(foreign.ranges) == 50


# -- memory ---------------------------------------------------------------------------------------


async def test_memory_stays_within_its_limit(foreign: ForeignStorage) -> None:
    settings = ReadSettings(cache_bytes=100 * SIZE, read_ahead_refs=40)
    reader, table = reader_of(foreign, settings), table_of(5000, SIZE)
    most = 0

    for row in range(5000):
        assert await read_row(reader, table, row) == expected(row)
        most = max(most, reader.cached_bytes)

    assert 40 * SIZE <= most <= 100 * SIZE
    assert len(foreign.ranges) < 200


async def test_without_a_cache_nothing_is_read_ahead(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign, ReadSettings(cache_bytes=0)), table_of(100, SIZE)

    found = await read_like_zarr(reader, table, range(100))

    assert found == [expected(row) for row in range(100)]
    assert reader.cached_bytes == 0


async def test_windows_are_bounded_in_bytes(foreign: ForeignStorage) -> None:
    settings = ReadSettings(read_ahead_bytes=20 * SIZE)
    reader, table = reader_of(foreign, settings), table_of(1000, SIZE)

    await read_like_zarr(reader, table, range(1000))

    assert max(end - start for start, end in filter(None, foreign.ranges)) <= 30 * SIZE


async def test_most_of_what_was_read_is_let_go_of(foreign: ForeignStorage) -> None:
    settings = ReadSettings(cache_bytes=4000 * SIZE)
    reader, table = reader_of(foreign, settings), table_of(10_000, SIZE)

    await read_like_zarr(reader, table, range(10_000))

    assert reader.cached_bytes <= 1000 * SIZE


def test_settings_must_be_sizes() -> None:
    with pytest.raises(InvalidInputError, match="cache_bytes"):
        ReadSettings(cache_bytes=-1)


# -- what goes wrong ------------------------------------------------------------------------------


async def test_a_reference_beyond_the_object_spoils_only_itself(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(10_005, SIZE)

    found = await asyncio.gather(
        *(read_row(reader, table, row) for row in range(9_995, 10_005)), return_exceptions=True
    )

    assert found[:5] == [expected(row) for row in range(9_995, 10_000)]
    for error in found[5:]:
        assert isinstance(error, StorageError)
        assert error.kind is ErrorKind.INVALID_OBJECT_SIZE
        assert LOCATION in str(error)


async def test_an_impossible_reference_ahead_does_no_harm(foreign: ForeignStorage) -> None:
    table = table_of(100, SIZE)
    offsets = table.byte_offset.copy()
    offsets[50] = 2**64 - 1
    reader, table = reader_of(foreign), replace_columns(table, byte_offset=offsets)

    found = await read_like_zarr(reader, table, range(50))
    rest = await read_like_zarr(reader, table, range(51, 100))

    assert found + rest == [expected(row) for row in range(100) if row != 50]
    with pytest.raises(InvalidInputError):
        await read_row(reader, table, 50)


async def test_a_merged_request_that_fails_is_tried_once_more_for_each_chunk(
    foreign: ForeignStorage,
) -> None:
    def fail_merged(byte_range: ByteRange | None) -> None:
        if byte_range is not None and byte_range[1] - byte_range[0] > SIZE:
            raise StorageError("the line went dead", retryable=True)

    foreign.fault = fail_merged
    reader, table = reader_of(foreign, NO_AHEAD), table_of(100, SIZE)

    found = await asyncio.gather(*(read_row(reader, table, row) for row in range(10)))

    assert found == [expected(row) for row in range(10)]
    assert len(foreign.ranges) == 11


def test_a_failed_window_is_no_failure_of_those_who_never_asked_for_it(
    foreign: ForeignStorage,
) -> None:
    def fail_merged(byte_range: ByteRange | None) -> None:
        if byte_range is not None and byte_range[1] - byte_range[0] > SIZE:
            raise StorageError("the line went dead")

    foreign.fault = fail_merged
    reader, table = reader_of(foreign), table_of(100, SIZE)

    found = [reader.read(virtual_ref(table, row), None, RowHint(table, row)) for row in range(100)]

    assert found == [expected(row) for row in range(100)]
    assert reader.cached_bytes == 0


async def test_each_chunk_of_a_store_that_fails_has_its_own_error(foreign: ForeignStorage) -> None:
    def fail(_: ByteRange | None) -> None:
        raise StorageError("the line went dead")

    foreign.fault = fail
    reader, table = reader_of(foreign), table_of(100, SIZE)

    found = await asyncio.gather(
        *(read_row(reader, table, row) for row in range(10)), return_exceptions=True
    )

    assert all(isinstance(error, StorageError) for error in found)
    assert len({id(error) for error in found}) == 10
    assert len(foreign.ranges) == 11


async def test_a_changed_object_yields_no_data_however_it_is_read(foreign: ForeignStorage) -> None:
    table = replace_columns(table_of(100, SIZE), last_modified=np.full(100, 1, np.uint32))
    reader = reader_of(foreign)

    found = await asyncio.gather(
        *(read_row(reader, table, row) for row in range(10)), return_exceptions=True
    )

    assert all(isinstance(error, ObjectChangedError) for error in found)
    with pytest.raises(ObjectChangedError, match=LOCATION):
        reader.read(virtual_ref(table, 50), None, RowHint(table, 50))


async def test_checks_can_be_switched_off_for_one_reader(foreign: ForeignStorage) -> None:
    table = replace_columns(table_of(100, SIZE), last_modified=np.full(100, 1, np.uint32))
    strict = reader_of(foreign)
    careless = strict.with_settings(ReadSettings(check_changes=False))

    assert await read_row(careless, table, 3) == expected(3)
    with pytest.raises(ObjectChangedError):
        await read_row(strict, table, 3)


async def test_an_object_that_changes_while_it_is_read_is_noticed(foreign: ForeignStorage) -> None:
    etag = foreign.head("data.bin").version.etag
    table = table_of(1000, SIZE)
    table = ChunkTable.from_refs(
        {(row,): VirtualRef(LOCATION, row * SIZE, SIZE, etag=etag) for row in range(len(table))},
        1,
    )
    reader = reader_of(foreign)
    await read_like_zarr(reader, table, range(20))
    foreign.put("data.bin", bytes(10_000 * SIZE))

    found = await asyncio.gather(
        *(read_row(reader, table, row) for row in range(20, 1000)), return_exceptions=True
    )

    for row, data in enumerate(found, 20):
        assert data == expected(row) or isinstance(data, ObjectChangedError)
    assert isinstance(found[-1], ObjectChangedError)


async def test_what_nobody_consented_to_is_not_read(foreign: ForeignStorage) -> None:
    reader = reader_of(foreign)

    with pytest.raises(AccessError):
        await reader.read_async(VirtualRef("gcs://bucket/data.bin", 0, SIZE))
    with pytest.raises(AccessError):
        reader.read(VirtualRef("gcs://bucket/data.bin", 0, SIZE))
    assert foreign.ranges == []


# -- loops, threads, processes --------------------------------------------------------------------


async def test_a_reader_that_gives_up_takes_nobody_with_it(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(100, SIZE)
    foreign.gate.clear()
    tasks = [asyncio.ensure_future(read_row(reader, table, row)) for row in range(10)]
    await asyncio.sleep(0.02)

    tasks[0].cancel()
    await asyncio.sleep(0.02)
    foreign.gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [expected(row) for row in range(1, 10)]


def test_a_loop_that_stops_leaves_no_reader_of_another_waiting(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(1000, SIZE)
    stopped = asyncio.new_event_loop()
    foreign.gate.clear()
    threading.Timer(0.05, foreign.gate.set).start()
    stopped.run_until_complete(read_like_zarr(reader, table, range(15)))

    found = asyncio.run(asyncio.wait_for(read_like_zarr(reader, table, range(200)), 10))

    assert found == [expected(row) for row in range(200)]
    stopped.close()


def test_loops_and_threads_share_one_reader(foreign: ForeignStorage) -> None:
    reader, table = reader_of(foreign), table_of(4000, SIZE)

    def in_a_loop(first: int) -> list[bytes]:
        return asyncio.run(read_like_zarr(reader, table, range(first, first + 500)))

    def in_a_thread(first: int) -> list[bytes]:
        rows = range(first, first + 500)
        return [reader.read(virtual_ref(table, row), None, RowHint(table, row)) for row in rows]

    with ThreadPoolExecutor(8) as threads:
        parts = [
            threads.submit(in_a_loop if i % 2 else in_a_thread, 500 * i).result for i in range(8)
        ]
        found = [data for part in parts for data in part()]

    assert b"".join(found) == content(10_000)[: 4000 * SIZE]
    assert len(foreign.ranges) < 8 * 20


def test_pickles_hold_neither_clients_nor_bytes() -> None:
    own = InMemoryStorage()
    reader = VirtualReader(ContainerSet.of([]), Access.of({"s3": None}), own, NO_AHEAD)
    reader._resolver.resolve("s3://bucket/x")

    copy = pickle.loads(pickle.dumps(reader))

    assert copy.settings == NO_AHEAD
    assert copy.cached_bytes == 0
    assert copy._resolver._storages == {}
    with pytest.raises(AccessError):
        copy.read(VirtualRef("gcs://bucket/x", 0, 1))


def test_containers_are_opened_once_for_all_chunks(foreign: ForeignStorage) -> None:
    world = World(bucket=foreign)
    reader = VirtualReader(
        ContainerSet.of([]), Access.of({"s3": None}), InMemoryStorage(), opener=world.open
    )
    table = table_of(200, SIZE)

    asyncio.run(read_like_zarr(reader, table, range(200)))

    assert len(world.opened) == 1


_FORK = """
import asyncio, os, warnings
warnings.simplefilter("ignore")
from tests.unit.virtual.places import ForeignStorage, read_row, reader_of, table_of

foreign = ForeignStorage()
foreign.put("data.bin", bytes(64 * 1000))
reader, table = reader_of(foreign), table_of(1000, 64)

async def some(rows):
    return await asyncio.gather(*(read_row(reader, table, row) for row in rows))

asyncio.run(some(range(50)))
child = os.fork()
if child == 0:
    found = asyncio.run(asyncio.wait_for(some(range(50, 500)), 10))
    os._exit(0 if found == [bytes(64)] * 450 else 1)
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_reads_with_threads_of_its_own() -> None:
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", _FORK], check=True, timeout=60, cwd=root)  # noqa: S603 - the script above


def test_a_distant_store_is_waited_for_only_now_and_then() -> None:
    near = InMemoryStorage()
    near.put("data.bin", content(10_000)[: 2000 * SIZE])
    counting = CountingStorage(near)
    reader = reader_of(LatentStorage(counting, read_latency_ms=20))
    table = table_of(2000, SIZE)
    begun = time.perf_counter()

    found = asyncio.run(read_like_zarr(reader, table, range(2000)))

    assert b"".join(found) == content(10_000)[: 2000 * SIZE]
    assert counting.reads < 20
    # one after the other they would take 40 s, ten at a time 4 s
    assert time.perf_counter() - begun < 2
