"""The icechunk package reads locations that were compressed here, and the other way round."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import icestream
from icestream.codec.manifests import decode_manifest
from icestream.model.extension_config import LocationCompressionRule

GRID = (12, 10, 10)
COUNT = 1200
PREFIX = "s3://climate-archive-eu-central-1/"
RELATIVE = "vcc://climate/"
ALIKE = [f"{PREFIX}reanalysis/hourly/single-levels/objects/{i:06d}.nc" for i in range(COUNT)]
"""Most of each is common to all: their frames are made from a template."""
MIXED = [f"gs://bucket-{i % 7}/{i // 100}/a/folder-{i % 13}/file-{i}.nc" for i in range(COUNT)]
"""Little is common to all: zstd compresses each."""
LONG = [f"s3://bucket/{'x' * (1000 + i % 40)}/{i}" for i in range(COUNT)]
"""Some have more than 1024 bytes."""
LISTS = {"alike": ALIKE, "mixed": MIXED, "long": LONG}


def config(library: Any) -> Any:
    compression = library.ManifestVirtualChunkLocationCompressionConfig()
    found = library.RepositoryConfig(
        manifest=library.ManifestConfig(virtual_chunk_location_compression=compression)
    )
    store = library.s3_store(region="eu-central-1", anonymous=True)
    container = library.VirtualChunkContainer(url_prefix=PREFIX, store=store, name="climate")
    found.set_virtual_chunk_container(container)
    return found


def write(library: Any, path: Path, settings: Any, names: Iterable[str] = tuple(LISTS)) -> None:
    storage = library.local_filesystem_storage(str(path))
    repo = library.Repository.create(storage, config=settings)
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    numbers = np.arange(COUNT, dtype=np.uint64)
    for name in names:
        root.create_array(name, shape=GRID, chunks=(1, 1, 1), dtype="u1")
        session.store.set_virtual_refs_arr(
            name, GRID, LISTS[name], numbers, numbers + 1, validate_containers=False
        )
    session.commit("references")


def locations_in(library: Any, path: Path) -> list[str]:
    """Return all locations as a library tells them, made absolute."""
    repo = library.Repository.open(library.local_filesystem_storage(str(path)))
    found = repo.readonly_session("main").all_virtual_chunk_locations()
    return sorted(location.replace(RELATIVE, PREFIX) for location in found)


def stored_locations(path: Path) -> set[str]:
    """Return all locations as they are in the manifests."""
    found: set[str] = set()
    for file in (path / "manifests").iterdir():
        for table in decode_manifest(file.read_bytes(), name=file.name).arrays.values():
            found.update(table.locations.to_pylist())
    return found


def compressed_counts(path: Path) -> list[int]:
    """Return how many locations are compressed in each manifest."""
    repo = icestream.Repository.open(icestream.local_filesystem_storage(str(path)))
    documents = [repo.inspect_manifest(file.name) for file in (path / "manifests").iterdir()]
    return sorted(d["compression"]["num_compressed_refs"] for d in documents)


@pytest.mark.parametrize("reader", [icestream, icechunk])
def test_both_libraries_read_locations_that_are_compressed_here(
    tmp_path: Path, reader: Any
) -> None:
    write(icestream, tmp_path, config(icestream))

    assert locations_in(reader, tmp_path) == sorted([*ALIKE, *MIXED, *LONG])


def test_locations_that_icechunk_compressed_are_read(tmp_path: Path) -> None:
    # it compresses those of more than 1024 bytes too, and cannot read them any more
    write(icechunk, tmp_path, config(icechunk), names=("alike", "mixed"))

    assert compressed_counts(tmp_path) == [COUNT, COUNT]
    assert locations_in(icestream, tmp_path) == sorted([*ALIKE, *MIXED])


def test_relative_locations_are_compressed_too(tmp_path: Path) -> None:
    write(icestream, tmp_path, config(icestream))

    assert {location.replace(PREFIX, RELATIVE) for location in ALIKE} < stored_locations(tmp_path)
    assert compressed_counts(tmp_path) == [2 * COUNT + sum(len(text) <= 1024 for text in LONG)]


def test_rules_choose_the_arrays(tmp_path: Path) -> None:
    settings = config(icestream)
    condition = icestream.ManifestSplitCondition.path_matches("^/(alike|long)$")
    settings.location_compression_rules = [LocationCompressionRule(condition, enabled=False)]

    write(icestream, tmp_path, settings)

    assert compressed_counts(tmp_path) == [0, COUNT]
    assert locations_in(icechunk, tmp_path) == sorted([*ALIKE, *MIXED, *LONG])


def test_nothing_is_compressed_by_default(tmp_path: Path) -> None:
    write(icestream, tmp_path, icestream.RepositoryConfig())

    assert compressed_counts(tmp_path) == [0]
