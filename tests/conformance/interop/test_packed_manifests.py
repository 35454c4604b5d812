"""Repositories with shared and split manifests go back and forth between both libraries."""

from pathlib import Path
from types import ModuleType
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import icestream
from icestream.model.manifest_sets import ChunkManifests, ChunkRange, ManifestRule, ManifestSet

LIBRARIES = (icestream, icechunk)
COORDINATES = [f"c{i}" for i in range(30)]
VARIABLES = ["t", "u", "v"]
STEPS, CELLS = 24, 5


def splitting(library: ModuleType, size: int) -> Any:
    rules = {
        library.ManifestSplitCondition.AnyArray(): {
            library.ManifestSplitDimCondition.DimensionName("time"): size
        }
    }
    return library.ManifestConfig(splitting=library.ManifestSplittingConfig.from_dict(rules))


def packed() -> Any:
    config = icestream.RepositoryConfig()
    config.chunk_manifests = ChunkManifests(
        (
            ManifestSet("small", max_manifest_size=50, cardinality=2),
            ManifestSet("default", max_manifest_size=200),
        ),
        (ManifestRule("small", metadata_chunks=ChunkRange(0, 10)),),
    )
    return config


def split() -> Any:
    return icestream.RepositoryConfig(manifest=splitting(icestream, 7))


def split_by_size() -> Any:
    config = icestream.RepositoryConfig()
    config.chunk_manifests = ChunkManifests((ManifestSet("default", max_manifest_size=33),))
    return config


def of_icechunk() -> Any:
    return icechunk.RepositoryConfig(manifest=splitting(icechunk, 7))


CONFIGURATIONS = {
    "defaults": (icestream, icestream.RepositoryConfig),
    "packed": (icestream, packed),
    "split": (icestream, split),
    "split by size": (icestream, split_by_size),
    "split by icechunk": (icechunk, of_icechunk),
}


@pytest.fixture(params=CONFIGURATIONS)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository with small and larger arrays, of which the last variable has gaps."""
    library, make_config = CONFIGURATIONS[request.param]
    storage = library.local_filesystem_storage(str(tmp_path))
    repo = library.Repository.create(storage, config=make_config())
    repo.save_config()
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    for i, name in enumerate(COORDINATES):
        array = root.create_array(name, shape=(4,), chunks=(2,), dtype="i4", fill_value=-1)
        array[:] = np.arange(4) + i
    for i, name in enumerate(VARIABLES):
        array = root.create_array(
            name,
            shape=(STEPS, CELLS),
            chunks=(1, 1),
            dtype="f8",
            fill_value=-1,
            dimension_names=["time", "cell"],
        )
        array[...] = np.arange(STEPS * CELLS).reshape(STEPS, CELLS) * (i + 1)
    root["v"][10:12] = -1
    session.commit("first")
    return tmp_path


def opened(library: ModuleType, path: Path) -> Any:
    return library.Repository.open(library.local_filesystem_storage(str(path)))


def content(repo: Any) -> dict[str, np.ndarray]:
    root = zarr.open_group(repo.readonly_session("main").store, mode="r")
    return {name: np.asarray(root[name][...]) for name in [*COORDINATES, *VARIABLES]}


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def append_step(repo: Any) -> None:
    """Append a step to every variable, and change a coordinate."""
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    for name in VARIABLES:
        array = root[name]
        steps = array.shape[0]
        array.resize((steps + 1, CELLS))
        array[steps] = steps
    coordinate: Any = root["c3"]
    coordinate[0] = coordinate[0] + 1
    session.commit("append")


def test_both_libraries_read_the_same_values(archive: Path) -> None:
    assert_equal(content(opened(icechunk, archive)), content(opened(icestream, archive)))


@pytest.mark.parametrize(
    "writers",
    [LIBRARIES, LIBRARIES[::-1]],
    ids=["icestream commits first", "icechunk commits first"],
)
def test_the_libraries_commit_on_top_of_each_other(
    archive: Path, writers: tuple[ModuleType, ModuleType]
) -> None:
    before = content(opened(icechunk, archive))
    for writer in writers * 2:
        append_step(opened(writer, archive))

    after = content(opened(icechunk, archive))
    assert_equal(content(opened(icestream, archive)), after)
    assert after["c3"][0] == before["c3"][0] + 4
    for name in VARIABLES:
        np.testing.assert_array_equal(after[name][:STEPS], before[name])
        np.testing.assert_array_equal(after[name][STEPS:, 0], range(STEPS, STEPS + 4))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_rewritten_repositories_keep_their_values(archive: Path, library: ModuleType) -> None:
    before = content(opened(icechunk, archive))

    opened(library, archive).rewrite_manifests("again", branch="main")

    assert_equal(content(opened(icechunk, archive)), before)
    assert_equal(content(opened(icestream, archive)), before)


def test_icechunk_does_not_bring_back_what_was_deleted(archive: Path) -> None:
    session = opened(icestream, archive).writable_session("main")
    del zarr.open_group(session.store, mode="a")["c5"]
    session.commit("without c5")
    peer = opened(icechunk, archive).writable_session("main")
    zarr.open_group(peer.store, mode="a")["c6"][0] = 100
    peer.commit("another")

    ours = opened(icestream, archive).writable_session("main")
    root = zarr.open_group(ours.store, mode="a")
    assert "c5" not in root
    root["c7"][0] = 200
    ours.commit("more")

    root = zarr.open_group(opened(icechunk, archive).readonly_session("main").store, mode="r")
    assert [root[name][0] for name in ("c6", "c7", "c8")] == [100, 200, 8]
