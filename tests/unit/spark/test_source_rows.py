"""What the data source does in Spark's processes, without Spark."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark import cloudpickle
from tests.unit.spark.cells.oceans import local_ocean, ocean

from icestream.credentials import s3_credentials
from icestream.errors import InvalidInputError
from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery
from icestream.spark.cells.plans import plan_cells
from icestream.spark.data_source import IcestreamDataSource, IcestreamReader
from icestream.spark.options import parse_options
from icestream.spark.pinned import PinnedRepository, VersionName
from icestream.storage import in_memory_storage, local_filesystem_storage


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("source") / "ocean"
    local_ocean(place)
    return place


def reader_of(folder: Path, **options: str) -> IcestreamReader:
    source = IcestreamDataSource({"path": str(folder), **options})
    schema = source.schema()
    # as Spark does between its processes
    moved: IcestreamDataSource = cloudpickle.loads(cloudpickle.dumps(source))
    return moved.reader(schema)


def read_all(reader: IcestreamReader) -> pa.Table:
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches)


def test_a_reader_yields_all_cells_after_it_moved_to_another_process(folder: Path) -> None:
    reader = reader_of(folder, array="depth", **{"rows-per-partition": "100"})

    assert len(reader.partitions()) == 6
    assert sum(read_all(reader).column("depth").to_pylist()) == int(ocean().depth.sum())


def test_a_source_without_rows_has_a_partition_without_batches(folder: Path) -> None:
    reader = reader_of(folder, select='{"lat": 99}')

    (only,) = reader.partitions()
    assert list(reader.read(only)) == []


def test_later_commits_do_not_change_what_was_settled(tmp_path: Path) -> None:
    repo = local_ocean(tmp_path / "ocean")
    source = IcestreamDataSource({"path": str(tmp_path / "ocean"), "array": "depth"})
    schema = source.schema()
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="depth")[:] = 0
    session.commit("dry")

    depth = read_all(source.reader(schema)).column("depth")

    assert sum(depth.to_pylist()) == int(ocean().depth.sum())


def test_consent_is_an_option_and_credentials_are_not(folder: Path) -> None:
    repo = parse_options({"path": str(folder), "authorize": "s3://archive/,gs"}).open()

    assert repo.authorized_virtual_container_prefixes == {"s3://archive/", "gs"}
    with pytest.raises(InvalidInputError, match="never an option"):
        parse_options({"path": str(folder), "session-token": "x"})


def test_a_pinned_repository_does_not_show_its_credentials(folder: Path) -> None:
    keys = s3_credentials(access_key_id="id", secret_access_key="very-secret-thing")
    repo = Repository.open(
        local_filesystem_storage(str(folder)),
        authorize_virtual_chunk_access={"s3://archive/": keys},
    )

    pinned = PinnedRepository.of(repo, VersionName().session(repo))

    assert "very-secret-thing" not in repr(pinned)
    assert pinned.repository.authorized_virtual_container_prefixes == {"s3://archive/"}


def test_shards_are_read_whole_by_one_task() -> None:
    session = Repository.create(in_memory_storage()).writable_session("main")
    numbers = np.arange(4_000).reshape(40, 100)
    zarr.create_array(
        session.store,
        name="n",
        shape=(40, 100),
        shards=(20, 100),
        chunks=(5, 10),
        dtype="i8",
        dimension_names=["y", "x"],
    )[:] = numbers
    plan = plan_cells(session.store, CellQuery(array="n"))

    blocks = plan.blocks(1)

    assert [block[0] for block in blocks] == [range(20), range(20, 40)]
    found = [
        b.column("n").to_numpy() for block in blocks for b in plan.batches(session.store, block)
    ]
    assert np.concatenate(found).tolist() == numbers.reshape(-1).tolist()
