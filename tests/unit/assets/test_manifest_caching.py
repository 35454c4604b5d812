"""Manifests in memory: loaded once, within limits on references and on bytes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from icestream.assets import assets as assets_module
from icestream.assets.assets import Assets, AssetSettings
from icestream.codec.manifests import decode_manifest
from icestream.model.chunk_refs import ChunkRef, InlineRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ManifestId, new_node_id
from icestream.model.manifests import Manifest
from icestream.storage import in_memory_storage
from icestream.testing.doubles import CountingStorage


def inline_table(count: int, size: int = 8) -> ChunkTable:
    return ChunkTable.from_refs({(i,): InlineRef(bytes(size)) for i in range(count)}, 1)


def saved(storage: CountingStorage, *tables: ChunkTable) -> list[ManifestId]:
    """Return the ids of manifests with one table each."""
    writer = Assets(storage, AssetSettings())
    return [
        writer.save_manifest({new_node_id(): table}, spec=2, locations=None).id for table in tables
    ]


@pytest.fixture
def decodes(monkeypatch) -> list[object]:
    """Count how often a manifest is decoded."""
    calls: list[object] = []

    def counted(data: bytes, *, name: str, expected_id: ManifestId) -> Manifest:
        calls.append(name)
        return decode_manifest(data, name=name, expected_id=expected_id)

    monkeypatch.setattr(assets_module, "decode_manifest", counted)
    return calls


def test_fifty_readers_of_one_manifest_cause_one_fetch_and_one_decode(decodes):
    storage = CountingStorage(in_memory_storage())
    (manifest_id,) = saved(storage, inline_table(100))
    assets = Assets(storage, AssetSettings())
    storage.reset()
    everybody = threading.Barrier(50, timeout=10)

    def read(_number: int) -> Manifest:
        everybody.wait()
        return assets.load_manifest(manifest_id)

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(read, range(50)))

    assert len({id(manifest) for manifest in found}) == 1
    assert (storage.reads, len(decodes)) == (1, 1)


def test_manifests_are_kept_within_the_number_of_references():
    storage = CountingStorage(in_memory_storage())
    ids = saved(storage, *(inline_table(10) for _ in range(10)))
    assets = Assets(storage, AssetSettings(cached_chunk_refs=35))

    for manifest_id in ids:
        assets.load_manifest(manifest_id)

    assert assets.cached_manifest_weights[0] == 33
    assert [assets.find_cached_manifest(i) is not None for i in ids] == [False] * 7 + [True] * 3


def test_manifests_are_kept_within_the_number_of_bytes_while_fifty_threads_read():
    storage = CountingStorage(in_memory_storage())
    ids = saved(storage, *(inline_table(4, size) for size in range(1000, 30_000, 1000)))
    limit = 200_000
    assets = Assets(storage, AssetSettings(cached_manifest_bytes=limit))
    seen: list[int] = []

    def read(number: int) -> None:
        for step in range(20):
            assets.load_manifest(ids[(number * 7 + step * 3) % len(ids)])
            seen.append(assets.cached_manifest_weights[1])

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(read, range(50)))

    assert max(seen) <= limit
    assert max(seen) > limit / 2
    kept = [assets.find_cached_manifest(manifest_id) for manifest_id in ids]
    assert assets.cached_manifest_weights[1] == sum(m.num_bytes for m in kept if m is not None)


def test_without_room_a_manifest_is_read_each_time_and_still_shared():
    storage = CountingStorage(in_memory_storage())
    (manifest_id,) = saved(storage, inline_table(10))
    assets = Assets(storage, AssetSettings(cached_manifest_bytes=0))
    storage.reset()

    for _ in range(2):
        assert assets.load_manifest(manifest_id).num_refs == 10

    assert storage.reads == 2
    assert assets.cached_manifest_weights == (0, 0)


def test_the_memory_of_a_manifest_counts_every_column():
    bare = Manifest(ManifestId(bytes(12)), {new_node_id(): inline_table(100, 1)}).num_bytes
    heavy = Manifest(ManifestId(bytes(12)), {new_node_id(): inline_table(100, 501)}).num_bytes
    refs: dict[tuple[int, ...], ChunkRef | None] = {
        (i,): VirtualRef(f"s3://bucket/{i:0100}", 0, 1, etag="e") for i in range(100)
    }
    virtual = Manifest(
        ManifestId(bytes(12)), {new_node_id(): ChunkTable.from_refs(refs, 1)}
    ).num_bytes

    assert heavy - bare == pytest.approx(100 * 500, rel=0.01)
    assert virtual > bare + 100 * 100


def test_the_memory_of_many_references_is_about_what_their_columns_take():
    count = 10_000
    table = ChunkTable(
        index=np.arange(count, dtype=np.uint32).reshape(-1, 1),
        kind=np.full(count, 2, np.uint8),
        byte_offset=np.zeros(count, np.uint64),
        length=np.ones(count, np.uint64),
        location_code=np.zeros(count, np.int32),
        locations=pa.chunked_array([pa.array(["s3://b/x"], pa.large_string())]),
    )

    found = Manifest(ManifestId(bytes(12)), {new_node_id(): table}).num_bytes

    assert found == pytest.approx(count * (4 + 1 + 8 + 8 + 4 + 8), rel=0.02)


def test_texts_that_tables_share_count_once():
    table = ChunkTable.from_refs({(0,): VirtualRef("s3://b/" + "x" * 10_000, 0, 1)}, 1)

    one = Manifest(ManifestId(bytes(12)), {new_node_id(): table}).num_bytes
    two = Manifest(ManifestId(bytes(12)), {new_node_id(): table, new_node_id(): table}).num_bytes

    assert two - one < 10_000 < one
