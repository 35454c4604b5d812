from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from tests.builders import array_json, array_of, one_manifest_per_array, repository, values

from icestream.assets import layout
from icestream.model.chunk_refs import InlineRef
from icestream.model.config import RepositoryConfig
from icestream.model.ids import ManifestId
from icestream.model.manifest_conditions import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.model.manifest_sets import ChunkManifests, ChunkRange, ManifestRule, ManifestSet
from icestream.model.nodes import ArrayNode
from icestream.repository.commit_statistics import CommitStatistics
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage import in_memory_storage
from icestream.testing.doubles import CountingStorage


def create(session: Session, name: str, chunks: int = 2, *, fill: bool = True) -> None:
    """Add an array of int32 with one value per chunk."""
    array = zarr.open_group(session.store, mode="a").create_array(
        name, shape=(chunks,), chunks=(1,), dtype="i4", fill_value=-1, dimension_names=["time"]
    )
    if fill:
        array[:] = np.arange(chunks)


def commit(session: Session, message: str = "change") -> CommitStatistics:
    session.commit(message)
    assert session.commit_statistics is not None
    return session.commit_statistics


def counts(statistics: CommitStatistics) -> tuple[int, int, int]:
    return (
        statistics.manifests_read,
        statistics.manifests_written,
        statistics.manifests_linked,
    )


def packed(*sets: ManifestSet, rules: tuple[ManifestRule, ...] = ()) -> RepositoryConfig:
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests(sets, rules)
    return config


def split_by(size: int, *sets: ManifestSet) -> RepositoryConfig:
    config = packed(*sets) if sets else RepositoryConfig()
    config.manifest = ManifestConfig(
        splitting=ManifestSplittingConfig.from_dict(
            {
                ManifestSplitCondition.AnyArray(): {
                    ManifestSplitDimCondition.DimensionName("time"): size
                }
            }
        )
    )
    return config


def manifests_of(repo: Repository, path: str) -> list[tuple[Any, ...]]:
    """Return the extents of the manifests of an array."""
    snapshot = repo.readonly_session("main")._copy.snapshot
    node = snapshot.nodes[path]
    assert isinstance(node, ArrayNode)
    return [ref.extents for ref in node.manifests]


def manifest_puts(storage: CountingStorage) -> list[str]:
    return [path for verb, path in storage.log if verb == "put" and "manifests/" in path]


def manifest_reads(storage: CountingStorage) -> list[str]:
    return [path for verb, path in storage.log if verb == "get" and "manifests/" in path]


def manifest_ids(session: Session, path: str) -> list[ManifestId]:
    node = session._copy.snapshot.nodes[path]
    assert isinstance(node, ArrayNode)
    return [ref.manifest_id for ref in node.manifests]


def put_references(session: Session, path: str, start: int, stop: int) -> None:
    n = stop - start
    locations = pa.array(["s3://bucket/key"] * n, pa.large_string())
    session.store.set_virtual_refs_arr(
        path[1:],
        (n,),
        locations,
        np.arange(n, dtype=np.uint64),
        np.ones(n, np.uint64),
        arr_offset=(start,),
        validate_containers=False,
    )


def references(session: Session, path: str) -> int:
    return len(session._copy.table(session._copy.get_array(path)))


def resize(session: Session, path: str, chunks: int) -> None:
    array_of(session, path).resize((chunks,))


# -- sharing ------------------------------------------------------------------------------------


def test_small_arrays_share_a_manifest() -> None:
    repo = repository()
    session = repo.writable_session("main")
    for i in range(20):
        create(session, f"v{i}")

    assert counts(commit(session)) == (0, 1, 0)
    assert values(repo, "v7") == [0, 1]


def test_there_are_no_statistics_before_a_commit() -> None:
    assert repository().writable_session("main").commit_statistics is None


def test_statistics_count_references_and_bytes() -> None:
    repo = repository()
    session = repo.writable_session("main")
    create(session, "a", 3)

    statistics = commit(session)

    (file,) = repo.list_manifest_files(repo.lookup_branch("main"))
    assert statistics.references_written == 3
    assert statistics.manifest_bytes_written == file.size_bytes


def test_the_manifest_of_coordinates_is_neither_read_nor_written_when_a_big_array_grows() -> None:
    storage = CountingStorage(in_memory_storage())
    session = repository(storage).writable_session("main")
    for i in range(5000):
        session._copy.put_metadata(f"/c{i}", array_json((1,)))
        session._copy.put_ref(f"/c{i}", (0,), InlineRef(b"abcd"))
    for i in range(3):
        create(session, f"big{i}", 6000, fill=False)
        put_references(session, f"/big{i}", 0, 6000)
    assert counts(commit(session)) == (0, 2, 0)
    # nothing is in memory here
    writer = Repository.open(storage).writable_session("main")
    resize(writer, "big1", 6001)
    put_references(writer, "/big1", 6000, 6001)
    storage.reset()

    statistics = commit(writer)

    assert counts(statistics) == (1, 1, 1)
    assert len(manifest_reads(storage)) == len(manifest_puts(storage)) == 1
    (coordinates,) = manifest_ids(writer, "/c17")
    assert layout.manifest_path(coordinates) not in {path for _, path in storage.log}
    assert references(writer, "/big1") == 6001
    assert references(writer, "/big0") == 6000


def test_an_edit_rewrites_everything_that_shares_its_manifest_and_nothing_else() -> None:
    repo = repository(config=packed(ManifestSet("default", arrays_per_manifest=2)))
    session = repo.writable_session("main")
    for name in "abcd":
        create(session, name)
    assert counts(commit(session)) == (0, 2, 0)
    session = repo.writable_session("main")
    (before,) = manifest_ids(session, "/a")
    mate = next(name for name in "bcd" if manifest_ids(session, f"/{name}") == [before])
    array_of(session, "a")[0] = 9

    assert counts(commit(session)) == (1, 1, 1)
    assert manifest_ids(session, "/a") == manifest_ids(session, f"/{mate}") != [before]
    assert [values(repo, name) for name in "abcd"] == [[9, 1], [0, 1], [0, 1], [0, 1]]


def test_rules_and_limits_are_followed() -> None:
    config = packed(
        ManifestSet("few", max_manifest_size=4, cardinality=1),
        ManifestSet("default", max_manifest_size=100),
        rules=(ManifestRule("few", path="/[ab].*", metadata_chunks=ChunkRange(0, 5)),),
    )
    repo = repository(config=config)
    session = repo.writable_session("main")
    for name, chunks in {"a": 2, "b": 2, "b2": 2, "c": 2, "big": 60}.items():
        create(session, name, chunks)
    commit(session)

    by_array = {name: manifest_ids(session, f"/{name}")[0] for name in ("a", "b", "b2", "c", "big")}
    assert len(set(by_array.values())) == 2
    assert sum(i == by_array["c"] for i in by_array.values()) == 3  # c, big and what overflowed
    assert by_array["c"] == by_array["big"]


def test_a_rule_may_ask_for_the_number_of_initialized_chunks() -> None:
    sparse = ManifestRule("sparse", initialized_chunks=ChunkRange(0, 3))
    config = packed(ManifestSet("sparse", max_manifest_size=10), rules=(sparse,))
    session = repository(config=config).writable_session("main")
    create(session, "full", 50)
    create(session, "nearly_empty", 50, fill=False)
    array_of(session, "nearly_empty")[49] = 1
    create(session, "other", 2)

    commit(session)

    assert manifest_ids(session, "/other") == manifest_ids(session, "/nearly_empty")
    assert manifest_ids(session, "/other") != manifest_ids(session, "/full")


def test_a_set_of_limited_number_takes_in_arrays_of_later_commits() -> None:
    repo = repository()
    for i in range(5):
        session = repo.writable_session("main")
        create(session, f"v{i}")
        statistics = commit(session)

    assert counts(statistics) == (1, 1, 0)
    assert len(repo.list_manifest_files(repo.lookup_branch("main"))) == 1
    assert [values(repo, f"v{i}") for i in range(5)] == [[0, 1]] * 5


def test_a_set_that_is_full_is_left_alone() -> None:
    config = packed(
        ManifestSet("small", max_manifest_size=4, cardinality=1),
        ManifestSet("default", max_manifest_size=4),
        rules=(ManifestRule("small", path="/v.*"),),
    )
    repo = repository(config=config)
    for i in range(4):
        session = repo.writable_session("main")
        create(session, f"v{i}")
        statistics = commit(session)

    assert statistics.manifests_linked >= 1
    assert [values(repo, f"v{i}") for i in range(4)] == [[0, 1]] * 4
    sizes = [file.num_chunk_refs for file in repo.list_manifest_files(repo.lookup_branch("main"))]
    assert max(sizes) <= 4


def test_an_array_that_is_deleted_and_created_again_starts_afresh() -> None:
    repo = repository(config=packed(ManifestSet("default", max_manifest_size=10)))
    session = repo.writable_session("main")
    create(session, "a")
    create(session, "b")
    commit(session)
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "a", shape=(3,), chunks=(1,), dtype="i4", overwrite=True
    )[:] = [7, 8, 9]

    assert counts(commit(session)) == (0, 1, 1)
    assert (values(repo, "a"), values(repo, "b")) == ([7, 8, 9], [0, 1])
    session = repo.writable_session("main")
    array_of(session, "b")[0] = 5
    assert counts(commit(session)) == (1, 1, 1)
    assert (values(repo, "a"), values(repo, "b")) == ([7, 8, 9], [5, 1])


def test_a_manifest_without_living_arrays_is_dropped() -> None:
    repo = repository()
    session = repo.writable_session("main")
    create(session, "a")
    commit(session)
    session = repo.writable_session("main")
    session._copy.delete_node("/a")

    assert counts(commit(session)) == (0, 0, 0)
    assert repo.list_manifest_files(repo.lookup_branch("main")) == []


def test_moving_and_resizing_read_no_manifest() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage)
    session = repo.writable_session("main")
    create(session, "a")
    create(session, "b", 5)
    commit(session)
    reader = Repository.open(storage)
    storage.reset()

    session = reader.rearrange_session("main")
    session.move("/a", "/moved")
    assert counts(commit(session)) == (0, 0, 1)
    session = reader.writable_session("main")
    resize(session, "b", 3)
    session.commit("smaller")

    assert values(repo, "moved") == [0, 1]
    assert values(repo, "b") == [0, 1, 2]


# -- splitting ----------------------------------------------------------------------------------


def test_an_append_rewrites_only_the_last_split() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage, config=split_by(10))
    session = repo.writable_session("main")
    create(session, "a", 35)
    assert counts(commit(session)) == (0, 4, 0)
    assert manifests_of(repo, "/a") == [((0, 10),), ((10, 20),), ((20, 30),), ((30, 35),)]
    session = Repository.open(storage).writable_session("main")
    resize(session, "a", 36)
    array_of(session, "a")[35] = 99
    storage.reset()

    assert counts(commit(session)) == (1, 1, 3)
    assert len(manifest_reads(storage)) == len(manifest_puts(storage)) == 1
    assert manifests_of(repo, "/a")[-1] == ((30, 36),)
    assert values(repo, "a") == [*range(35), 99]


def test_an_append_beyond_the_last_split_reads_nothing() -> None:
    repo = repository(config=split_by(10))
    session = repo.writable_session("main")
    create(session, "a", 20)
    commit(session)
    session = repo.writable_session("main")
    resize(session, "a", 21)
    array_of(session, "a")[20] = 99

    assert counts(commit(session)) == (0, 1, 2)
    assert values(repo, "a") == [*range(20), 99]


def test_pieces_of_one_period_share_a_manifest() -> None:
    repo = repository(config=split_by(10, ManifestSet("default", max_manifest_size=1000)))
    session = repo.writable_session("main")
    for name in ("a", "b", "c"):
        create(session, name, 30)

    assert counts(commit(session)) == (0, 3, 0)
    session = repo.writable_session("main")
    array_of(session, "b")[15] = 99

    assert counts(commit(session)) == (1, 1, 2)
    assert values(repo, "b") == [*range(15), 99, *range(16, 30)]
    assert values(repo, "a") == values(repo, "c") == list(range(30))


def test_an_array_beyond_the_limit_is_split_by_itself() -> None:
    config = packed(ManifestSet("default", max_manifest_size=10))
    repo = repository(config=config)
    session = repo.writable_session("main")
    create(session, "a", 25)

    assert counts(commit(session)) == (0, 3, 0)
    assert manifests_of(repo, "/a") == [((0, 10),), ((10, 20),), ((20, 25),)]
    session = repo.writable_session("main")
    resize(session, "a", 26)
    array_of(session, "a")[25] = 99

    assert counts(commit(session)) == (1, 1, 2)
    assert values(repo, "a") == [*range(25), 99]


def test_an_array_that_grows_beyond_the_limit_is_split_once() -> None:
    repo = repository(config=packed(ManifestSet("default", max_manifest_size=10)))
    session = repo.writable_session("main")
    create(session, "a", 8)
    commit(session)
    found = []
    for size in (12, 16, 20, 21):
        session = repo.writable_session("main")
        before = array_of(session, "a").shape[0]
        resize(session, "a", size)
        array_of(session, "a")[before:] = np.arange(before, size)
        found.append(counts(commit(session)))

    assert found == [(1, 2, 0), (1, 1, 1), (1, 1, 1), (0, 1, 2)]
    assert values(repo, "a") == list(range(21))


def test_splitting_what_is_too_large_can_be_switched_off() -> None:
    oversized = ManifestSet("default", max_manifest_size=10, split_oversized=False)
    session = repository(config=packed(oversized)).writable_session("main")
    create(session, "a", 25)
    create(session, "b", 5)

    assert counts(commit(session)) == (0, 2, 0)
    assert len(manifest_ids(session, "/a")) == 1


def test_a_sparse_array_beyond_the_limit_is_not_scattered_over_many_manifests() -> None:
    repo = repository(config=packed(ManifestSet("default", max_manifest_size=10)))
    session = repo.writable_session("main")
    create(session, "a", 1000, fill=False)
    for i in range(0, 1000, 50):
        session._copy.put_ref("/a", (i,), InlineRef(b"abcd"))

    assert counts(commit(session)) == (0, 1, 0)


def test_a_chunk_may_be_deleted_from_a_split() -> None:
    repo = repository(config=split_by(2))
    session = repo.writable_session("main")
    create(session, "a", 4)
    commit(session)
    session = repo.writable_session("main")
    for i in (2, 3):
        session._copy.delete_chunk("/a", (i,))

    assert counts(commit(session)) == (1, 0, 1)
    assert manifests_of(repo, "/a") == [((0, 2),)]
    assert values(repo, "a") == [0, 1, -1, -1]


# -- other configurations -----------------------------------------------------------------------


def test_rewriting_packs_a_repository_as_the_configuration_says() -> None:
    storage = in_memory_storage()
    repo = repository(storage, config=one_manifest_per_array())
    session = repo.writable_session("main")
    for i in range(6):
        create(session, f"v{i}", 10)
    assert commit(session).manifests_written == 6
    tip = repo.lookup_branch("main")

    shared = Repository.open(storage, config=packed(ManifestSet("default", max_manifest_size=30)))
    shared.rewrite_manifests("pack", branch="main")
    assert len(repo.list_manifest_files(repo.lookup_branch("main"))) == 2
    split = Repository.open(storage, config=split_by(4, ManifestSet("default")))
    split.rewrite_manifests("split", branch="main")
    assert len(repo.list_manifest_files(repo.lookup_branch("main"))) == 3

    assert [values(repo, f"v{i}") for i in range(6)] == [list(range(10))] * 6
    assert [values(repo, f"v{i}", snapshot_id=tip) for i in range(6)] == [list(range(10))] * 6


@pytest.mark.parametrize("size", [3, 7, 40])
def test_a_new_split_size_is_taken_up_where_chunks_change(size: int) -> None:
    storage = in_memory_storage()
    session = repository(storage, config=split_by(10)).writable_session("main")
    create(session, "a", 40)
    commit(session)
    repo = Repository.open(storage, config=split_by(size))
    session = repo.writable_session("main")
    array_of(session, "a")[25] = 99
    commit(session)

    assert values(repo, "a") == [*range(25), 99, *range(26, 40)]
    refs = manifests_of(repo, "/a")
    assert sum(stop - start for ((start, stop),) in refs) == 40
