"""Bytes of chunks: each object, each range of a foreign file and each manifest counts once."""

from operator import add

import numpy as np
import pytest
import zarr
from tests.builders import array_of, repository, repository_with_array

from icestream.model.chunk_refs import ChunkRef, NativeRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.config import RepositoryConfig
from icestream.model.ids import new_chunk_id
from icestream.repository import row_sets
from icestream.repository.row_sets import RowSet, id_rows, pack_rows, parse_id_names
from icestream.repository.statistics import ChunkStorageStats, _Census
from icestream.storage import in_memory_storage
from icestream.testing.doubles import CountingStorage

ALL_NATIVE = RepositoryConfig(inline_chunk_threshold_bytes=0)


def uncompressed_array(repo, chunks: int = 4):
    session = repo.writable_session("main")
    array = zarr.create_group(session.store).create_array(
        "a", shape=(chunks,), chunks=(1,), dtype="i8", compressors=None, fill_value=-1
    )
    array[:] = np.arange(chunks)
    session.commit("array")
    return repo


def test_native_chunks_of_all_reachable_versions_count_once():
    repo = uncompressed_array(repository(config=ALL_NATIVE))
    session = repo.writable_session("main")
    array_of(session)[0] = 7
    first = session.commit("one more")
    repo.create_tag("first", first)
    assert repo.chunk_storage_stats() == ChunkStorageStats(native_bytes=5 * 8)
    lost = repo.writable_session("main")
    array_of(lost)[1] = 7
    lost.flush("no branch points here")
    assert repo.chunk_storage_stats().native_bytes == 5 * 8


def test_inline_chunks_count_in_every_manifest_that_has_them():
    repo = uncompressed_array(repository())
    assert repo.chunk_storage_stats() == ChunkStorageStats(inlined_bytes=4 * 8)
    session = repo.writable_session("main")
    array_of(session)[0] = 7
    session.commit("another manifest")
    assert repo.chunk_storage_stats() == ChunkStorageStats(inlined_bytes=8 * 8)


def test_ranges_of_foreign_files_count_once():
    repo = repository()
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    refs = [
        ("a/c/0", "s3://bucket/x", 0, 10),
        ("a/c/1", "s3://bucket/x", 0, 10),
        ("a/c/2", "s3://bucket/x", 10, 10),
        ("b/c/0", "s3://bucket/x", 0, 10),
        ("b/c/1", "s3://bucket/x", 0, 7),
        ("b/c/2", "s3://bucket/y", 0, 10),
    ]
    for path in ("a", "b"):
        group.create_array(path, shape=(3,), chunks=(1,), dtype="i8")
    for key, location, offset, length in refs:
        session.store.set_virtual_ref(key, location, offset, length, validate_containers=False)
    session.commit("virtual")
    assert repo.chunk_storage_stats() == ChunkStorageStats(virtual_bytes=10 + 10 + 7 + 10)


def test_chunks_that_share_an_object_count_as_far_as_it_is_used():
    shared, alone = new_chunk_id(), new_chunk_id()
    refs: dict[tuple[int, ...], ChunkRef | None] = {
        (0,): NativeRef(shared, 0, 10),
        (1,): NativeRef(shared, 10, 5),
        (2,): NativeRef(shared, 0, 10),
        (3,): NativeRef(alone, 0, 3),
    }
    census = _Census()
    census.count(ChunkTable.from_refs(refs, 1))
    census.count(ChunkTable.from_refs(refs, 1))
    assert census.finish() == ChunkStorageStats(native_bytes=15 + 3)


def test_each_manifest_and_snapshot_is_read_once():
    storage = CountingStorage(in_memory_storage())
    repo = repository_with_array(storage)
    for name in ("x", "y"):
        session = repo.writable_session("main")
        zarr.open_group(session.store).create_array(name, shape=(2,), dtype="i4")[:] = 1
        session.commit(name)
    storage.reset()
    repo.reopen().chunk_storage_stats()
    reads = [path for verb, path in storage.log if verb == "get"]
    assert len(reads) == len(set(reads))
    assert sum(path.startswith("manifests/") for path in reads) == 3


def test_an_empty_repository_has_no_bytes():
    assert repository().chunk_storage_stats() == ChunkStorageStats()


def test_sums():
    one, two = ChunkStorageStats(1, 2, 4), ChunkStorageStats(10, 20, 40)
    assert add(one, two) == ChunkStorageStats(11, 22, 44)
    assert (one.non_virtual_bytes(), one.total_bytes()) == (5, 7)


async def test_the_old_name_warns_and_counts_native_chunks():
    repo = uncompressed_array(repository(config=ALL_NATIVE))
    with pytest.warns(DeprecationWarning, match="chunk_storage_stats"):
        assert repo.total_chunks_storage(max_snapshots_in_memory=1) == 32
    assert (await repo.chunk_storage_stats_async()).native_bytes == 32


# -- sets of rows ---------------------------------------------------------------------------------


def test_a_row_set_holds_what_was_added_in_whatever_pieces(monkeypatch):
    monkeypatch.setattr(row_sets, "_SMALL", 100)
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 40, (20_000, 3), dtype=np.uint8)
    pieces = RowSet(3)
    for piece in np.array_split(rows[:15_000], 7):
        pieces.add(piece)
    expected = {row.tobytes() for row in rows[:15_000]}
    assert [row.tobytes() for row in pieces.rows()] == sorted(expected)
    absent = rows[15_000:]
    found = pieces.holds(absent)
    assert found.tolist() == [row.tobytes() in expected for row in absent]
    assert found.any()
    assert not found.all()


def test_rows_that_end_in_zeros_are_told_apart():
    rows = RowSet(2)
    rows.add(np.array([[1, 0], [0, 1]], np.uint8))
    assert rows.holds(np.array([[1, 0], [1, 1], [0, 0]], np.uint8)).tolist() == [True, False, False]
    assert not RowSet(2).holds(np.array([[1, 0]], np.uint8)).any()


def test_columns_are_packed_side_by_side():
    ids = np.array([[1, 2], [3, 4]], np.uint8)
    packed = pack_rows(ids, np.array([5, 6], "<u2"))
    assert packed.tolist() == [[1, 2, 5, 0], [3, 4, 6, 0]]


def test_names_are_parsed_only_if_they_spell_an_id_as_it_is_written():
    names = ["000G40R40M30E209185G", "000g40R40M30E209185G", "lock", "é" * 20, "Z" * 20]
    ids, places = parse_id_names(names)
    assert places.tolist() == [0]
    assert ids.tolist() == [list(range(12))]
    assert id_rows([bytes(range(12))]).tolist() == [list(range(12))]
    assert [len(part) for part in parse_id_names([])] == [0, 0]
    assert id_rows([]).shape == (0, 12)
