"""Tables of metadata, without Spark."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import zarr

from icestream.errors import InvalidInputError
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.repository.repository import Repository
from icestream.spark.metadata_tables import find_table, table_batches
from icestream.spark.pinned import PinnedRepository, VersionName
from icestream.storage import local_filesystem_storage

LOCATION = "s3://archive/2024/file.nc"


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> PinnedRepository:
    place = tmp_path_factory.mktemp("tables")
    repo = Repository.create(
        local_filesystem_storage(str(place)), RepositoryConfig(inline_chunk_threshold_bytes=64)
    )
    archive = VirtualChunkContainer.of(name="archive", prefix="s3://archive/", object_store="s3")
    repo.config.set_virtual_chunk_container(archive)
    repo.save_config()
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    root.create_array("small", data=np.arange(3), chunks=(3,), compressors=None)
    root.create_array("large", data=np.arange(200), chunks=(100,), compressors=None)
    root.create_array("foreign", shape=(3,), chunks=(1,), dtype="i8")
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    for index, checksum in enumerate(['"tag"', moment, None]):
        session.store.set_virtual_ref(f"foreign/c/{index}", LOCATION, index, 8, checksum=checksum)
    session.commit("all kinds")
    return PinnedRepository.of(repo, VersionName().session(repo))


def rows(pinned: PinnedRepository, name: str) -> list[dict[str, Any]]:
    table = find_table(name)
    parts = [None] if table.parts is None else table.parts(pinned)
    batches = [batch for part in parts for batch in table_batches(table, pinned, part)]
    assert all(batch.schema == table.schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_references_of_all_kinds_are_rows(pinned: PinnedRepository) -> None:
    refs = {(row["array"], *row["chunk"]): row for row in rows(pinned, "refs")}

    assert len(refs) == 1 + 2 + 3
    small, large = refs["/small", 0], refs["/large", 1]
    assert (small["kind"], small["length"], small["chunk_id"]) == ("inline", 24, None)
    assert (large["kind"], large["length"], large["location"]) == ("native", 800, None)
    assert len(large["chunk_id"]) == 20
    foreign = [refs["/foreign", index] for index in range(3)]
    # stored relative to the container, shown in full
    assert {row["location"] for row in foreign} == {LOCATION}
    assert [row["byte_offset"] for row in foreign] == [0, 1, 2]
    assert [bool(row["etag"]) for row in foreign] == [True, False, False]
    assert foreign[1]["last_modified"] == datetime(2024, 5, 1, tzinfo=UTC)
    assert foreign[2]["last_modified"] is None


def test_references_can_be_had_as_they_are_stored(pinned: PinnedRepository) -> None:
    stored = pinned.session.reference_table("/foreign", stored=True)
    shown = pinned.session.reference_table("/foreign")

    assert set(stored.location_column().to_pylist()) == {"vcc://archive/2024/file.nc"}
    assert set(shown.location_column().to_pylist()) == {LOCATION}


def test_other_tables_count_what_the_version_has(pinned: PinnedRepository) -> None:
    assert [row["location"] for row in rows(pinned, "sources")] == [LOCATION]
    assert sum(row["references"] for row in rows(pinned, "manifests")) == 6
    assert [row["message"] for row in rows(pinned, "snapshots")][0] == "all kinds"  # noqa: RUF015  newest first
    nodes = {row["path"]: row for row in rows(pinned, "nodes")}
    assert nodes["/large"]["num_chunks"] == [2]
    assert nodes["/"]["shape"] is None


def test_a_table_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(InvalidInputError, match="refs, sources, manifests, snapshots, nodes, ev"):
        find_table("references")
