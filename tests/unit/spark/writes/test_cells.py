"""Rows as cells of arrays, without Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from tests.unit.spark.cells.oceans import local_ocean, ocean

from icestream.errors import IcestreamError
from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery
from icestream.spark.cells.plans import plan_cells
from icestream.spark.cells.selections import Selection
from icestream.spark.writes.cell_rows import plan_rows
from icestream.spark.writes.cells import CellWriting, common_blocks
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.spark.writes.written_tables import join_tables
from icestream.storage import in_memory_storage

BOTH = CellQuery(variables=("temperature", "depth"))


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return local_ocean(tmp_path / "ocean")


def rows_of(repo: Repository, selection: Selection | None = None) -> pa.Table:
    store = repo.readonly_session("main").store
    plan = plan_cells(store, BOTH, selection)
    return pa.Table.from_batches(
        [batch for block in plan.blocks() for batch in plan.batches(store, block)]
    )


def writing(repo: Repository, rows: pa.Table, query: CellQuery = BOTH, **how: Any) -> CellWriting:
    target = WriteTarget.of(repo, "main")
    store = target.pinned.session.store
    return CellWriting(target, plan_rows(store, query, rows.column_names, **how))


def written(repo: Repository, rows: pa.Table, query: CellQuery = BOTH, **how: Any) -> xr.Dataset:
    job = writing(repo, rows, query, **how)
    job.target.commit(job.write(rows.to_batches()), CommitWords())
    return shown(repo)


def shown(repo: Repository) -> xr.Dataset:
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, zarr_format=3).load()
    return found


def with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def test_cells_that_were_read_can_be_written_again(repo: Repository) -> None:
    rows = rows_of(repo)
    shuffled = rows.take(pa.array(np.random.default_rng(3).permutation(len(rows))))

    again = written(repo, shuffled)

    xr.testing.assert_allclose(again, ocean())
    assert np.isnan(again.temperature[0, 0, 0])


def test_cells_without_a_row_keep_their_values(repo: Repository) -> None:
    rows = rows_of(repo, {"time": "2024-06-01", "lat": slice(41, 43)})
    rows = with_column(rows, "temperature", pa.repeat(-1.5, len(rows)))
    expected = ocean()
    expected.temperature.loc[{"time": "2024-06-01", "lat": slice(41, 43)}] = -1.5

    again = written(repo, rows.drop_columns(["depth"]), CellQuery(array="/temperature"))

    xr.testing.assert_allclose(again, expected)


def test_only_chunks_with_rows_are_written(repo: Repository) -> None:
    rows = rows_of(repo, {"time": "2024-06-01", "lat": slice(41, 42), "lon": 0})
    job = writing(repo, rows)

    tables = job.write(rows.to_batches())

    assert {path: table.index.tolist() for path, table in tables.items()} == {
        "/temperature": [[0, 0, 0]],
        "/depth": [[0, 0, 0]],
    }


def test_rows_may_name_cells_by_position(repo: Repository) -> None:
    rows = pa.table({"time": [9], "lat": [5], "lon": [7], "depth": [4321]})

    again = written(repo, rows, CellQuery(array="depth"), indexes=True)

    assert again.depth[9, 5, 7] == 4321
    assert (again.depth != ocean().depth).sum() == 1


def test_columns_are_found_without_naming_the_arrays(repo: Repository) -> None:
    rows = rows_of(repo, {"lon": 2}).drop_columns(["depth"])

    assert {"area", "height"} < set(rows.column_names)  # which are coordinates
    assert [v.name for v in writing(repo, rows, CellQuery()).plan.variables] == ["temperature"]


def test_a_chunk_in_two_tasks_is_refused_with_the_way_out(repo: Repository) -> None:
    rows = rows_of(repo)
    job = writing(repo, rows)
    parts = [job.write(rows.slice(0, 40).to_batches()), job.write(rows.slice(40).to_batches())]

    with pytest.raises(IcestreamError, match=r"written more than once.*write_array"):
        join_tables(parts, remedy=job.remedy)


def test_blocks_hold_whole_chunks_of_all_variables() -> None:
    session = Repository.create(in_memory_storage()).writable_session("main")
    for name, chunks in {"a": (4, 5), "b": (6, 5)}.items():
        zarr.create_array(
            session.store,
            name=name,
            shape=(30, 8),
            chunks=chunks,
            dtype="i2",
            dimension_names=["y", "x"],
        )
    plan = plan_rows(session.store, CellQuery(), ["y", "x", "a", "b"])

    assert common_blocks(plan) == (12, 5)
    target = WriteTarget.of(local_repository(), "main")
    cells = np.array([[0, 0], [11, 4], [12, 4], [29, 7]])
    assert CellWriting(target, plan).block_numbers(cells).tolist() == [0, 0, 2, 5]


def local_repository() -> Repository:
    return Repository.create(in_memory_storage())


MOMENT = pa.scalar(0, pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lat": pa.scalar(99.5)}, "'lat': 99.5 is no value of this coordinate"),
        ({"lat": pa.scalar("north")}, "'lat' has the type string"),
        ({"time": MOMENT}, "'time': 1970-01-01 .* is no value"),
        ({"lon": pa.scalar(8)}, "8 is no position between 0 and 7"),
        ({"lon": pa.scalar(None, pa.int64())}, "None is no position"),
        ({"lon": pa.scalar(1.5)}, "positions are whole numbers"),
        ({"lon": pa.scalar(3)}, r"two rows are the cell \[0, 0, 3\]"),
        ({"depth": pa.scalar(70_000)}, "'depth' has the type int64"),
        ({"depth": pa.scalar(None, pa.int32())}, "'depth' has nulls"),
        ({"temperature": pa.scalar(1e9)}, "cannot be stored as int16"),
    ],
)
def test_rows_without_a_cell_or_a_value_are_named(
    repo: Repository, changes: Mapping[str, pa.Scalar], told: str
) -> None:
    rows = rows_of(repo)
    for name, value in changes.items():
        rows = with_column(rows, name, pa.repeat(value, len(rows)))
    job = writing(repo, rows)

    with pytest.raises(IcestreamError, match=told):
        job.write(rows.to_batches())


@pytest.mark.parametrize(
    ("columns", "query", "told"),
    [
        (["time", "lat", "depth"], CellQuery(), "no column 'lon'"),
        (["time", "lat", "lon"], CellQuery(), "no column is an array of the group /"),
        (["time", "lat", "lon", "depth", "x"], CellQuery(), "'x' is neither a coordinate"),
        (
            ["time", "lat", "lon", "depth", "temprature"],
            CellQuery(array="/depth"),
            "'temprature' is neither a coordinate nor an array that is written .depth.; drop it",
        ),
        (["time", "lat", "lon"], CellQuery(array="/depth"), "no column 'depth'"),
        (["time", "lat", "lon", "z"], CellQuery(array="/z"), "no array z"),
        (["time"], CellQuery(group="/nope"), "no group /nope"),
    ],
)
def test_columns_must_be_those_of_the_grid(
    repo: Repository, columns: list[str], query: CellQuery, told: str
) -> None:
    with pytest.raises(IcestreamError, match=told):
        plan_rows(repo.readonly_session("main").store, query, columns)


def test_coordinates_that_repeat_name_no_cell() -> None:
    session = Repository.create(in_memory_storage()).writable_session("main")
    root = zarr.group(session.store)
    root.create_array("x", data=np.array([1.0, 1.0]), dimension_names=["x"])
    root.create_array("v", data=np.array([1, 2]), dimension_names=["x"])

    with pytest.raises(IcestreamError, match="values that repeat"):
        plan_rows(session.store, CellQuery(array="v"), ["x", "v"])
    by_position = plan_rows(session.store, CellQuery(array="v"), ["x", "v"], indexes=True)
    assert by_position.coordinates == (None,)


def test_cells_with_the_fill_value_leave_no_chunk(repo: Repository) -> None:
    rows = rows_of(repo, {"lat": slice(40, 42.5)})
    zeros = with_column(rows, "depth", pa.repeat(pa.scalar(0, pa.int32()), len(rows)))

    again = written(repo, zeros.drop_columns(["temperature"]), CellQuery(array="depth"))

    assert int(again.depth[:, :3].sum()) == 0
    assert len(repo.readonly_session("main").reference_table("/depth")) == 6
