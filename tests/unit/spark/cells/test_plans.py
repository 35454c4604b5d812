"""Cells of arrays as Arrow batches, with xarray as the judge of values."""

from typing import cast

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no stubs here
import pyarrow as pa
import pytest
import zarr
from tests.unit.spark.cells.oceans import ocean, write_ocean
from zarr.abc.store import Store

from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery
from icestream.spark.cells.plans import CellPlan, plan_cells
from icestream.storage import in_memory_storage
from icestream.testing.doubles import CountingStorage

ALL = CellQuery()
TEMPERATURE = CellQuery(array="/temperature")


@pytest.fixture(scope="module")
def storage() -> CountingStorage:
    return CountingStorage(in_memory_storage())


@pytest.fixture(scope="module")
def repo(storage: CountingStorage) -> Repository:
    return write_ocean(storage)


@pytest.fixture
def store(repo: Repository) -> Store:
    return repo.readonly_session("main").store


def rows(plan: CellPlan, store: Store, size: int = 10**6, batch: int = 100) -> pa.Table:
    batches = [b for block in plan.blocks(size) for b in plan.batches(store, block, batch)]
    assert all(b.num_rows <= batch for b in batches)
    return pa.Table.from_batches(batches, plan.schema)


def expected(**sel: object) -> pd.DataFrame:
    frame = ocean().sel(sel).to_dataframe().reset_index()
    frame["time"] = frame["time"].dt.tz_localize("UTC").astype("datetime64[us, UTC]")
    return frame


def same(table: pa.Table, frame: pd.DataFrame) -> None:
    order = ["time", "lat", "lon"]
    ours = table.to_pandas().sort_values(order, ignore_index=True)
    theirs = frame[ours.columns].sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, atol=1e-9)


@pytest.mark.parametrize("size", [1, 100, 10**6])
def test_a_group_has_a_column_per_coordinate_and_variable(store: Store, size: int) -> None:
    plan = plan_cells(store, ALL)

    table = rows(plan, store, size)

    names = ["time", "lat", "lon", "area", "height", "depth", "temperature"]
    assert table.column_names == names
    assert plan.num_rows == len(table) == 480
    same(table, expected())


def test_fill_values_are_null_and_times_are_moments(store: Store) -> None:
    table = rows(plan_cells(store, TEMPERATURE), store)

    assert table.column("temperature").null_count == 1
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    assert table.column_names == ["time", "lat", "lon", "area", "height", "temperature"]


def test_stored_values_are_there_for_those_who_want_them(store: Store) -> None:
    table = rows(plan_cells(store, CellQuery(array="temperature", decode=False)), store)

    assert table.schema.field("temperature").type == pa.int16()
    assert table.column("temperature")[0].as_py() == -32768
    assert table.column("time")[0].as_py() == 28 * 24


@pytest.mark.parametrize(
    ("selection", "sel"),
    [
        ({"time": "2024-06"}, {"time": "2024-06"}),
        (
            {"time": {"from": "2024-05-30", "to": "2024-06-01"}},
            {"time": slice("2024-05-30", "2024-06-01")},
        ),
        ({"lat": {"from": 41.05, "to": 44.2}}, {"lat": slice(41.05, 44.2)}),
        ({"lat": [40.1, 45.1], "lon": [0, 7, 3]}, {"lon": [0, 3, 7]}),
        ({"lon": 5, "time": "2024-05-31"}, {"lon": [5], "time": ["2024-05-31"]}),
        ({"lon": slice(None, 2)}, {"lon": slice(0, 3)}),
    ],
)
def test_a_selection_leaves_the_cells_that_xarray_would(
    store: Store, selection: dict[str, object], sel: dict[str, object]
) -> None:
    table = rows(plan_cells(store, ALL, selection), store, size=60)

    frame = expected(**{k: v for k, v in sel.items() if k != "lon"})
    if "lon" in sel:
        chosen = np.arange(8)[cast("slice", sel["lon"])]
        frame = frame[frame["lon"].isin(chosen)]
    if isinstance(selection.get("lat"), list):
        frame = frame[frame["lat"].isin(np.array([40.1, 45.1], "f4"))]
    assert len(table) == len(frame) > 0
    same(table, frame)


def test_a_selection_that_nothing_meets_has_no_rows(store: Store) -> None:
    plan = plan_cells(store, ALL, {"lat": 99})

    assert plan.blocks() == []
    assert plan.num_rows == 0


def chunk_reads(storage: CountingStorage) -> int:
    return sum(path.startswith("chunks/") for verb, path in storage.log if verb == "get")


def test_only_the_chunks_that_hold_selected_cells_are_read(
    repo: Repository, storage: CountingStorage
) -> None:
    store = repo.readonly_session("main").store
    storage.reset()
    plan = plan_cells(store, TEMPERATURE, {"lon": 6, "lat": {"from": 44}})
    assert chunk_reads(storage) == 1  # lat; lon is counted

    storage.reset()
    read = rows(plan, store)

    assert len(read) == 10 * 2
    # 3 of the 3 * 2 * 2 chunks of the array; time, lat, area and height are one chunk each
    assert chunk_reads(storage) == 3 + 4


def test_reading_everything_reads_every_chunk_once(
    repo: Repository, storage: CountingStorage
) -> None:
    store = repo.readonly_session("main").store
    plan = plan_cells(store, CellQuery(variables=("temperature", "depth")))
    storage.reset()

    rows(plan, store)

    assert chunk_reads(storage) == 12 * 2 + 4


def test_a_box_of_positions_reads_the_chunks_that_hold_them(
    storage: CountingStorage, store: Store
) -> None:
    plan = plan_cells(store, TEMPERATURE)
    days = np.array([0, 5])
    storage.reset()

    table = rows(plan.within({"time": days, "elsewhere": days}), store)

    wanted = ocean()["time"].to_numpy()[days]
    same(table, expected(time=wanted).drop(columns="depth"))
    # 2 * 2 chunks for each of two days; time, lat, area and height are one chunk each
    assert chunk_reads(storage) == 2 * 4 + 4
    assert plan.within({"time": np.array([], np.int64)}).blocks() == []


@pytest.mark.parametrize("selection", [None, {"x": [0, 2]}])
def test_coordinates_with_transposed_dimensions_belong_to_their_cells(
    selection: dict[str, object] | None,
) -> None:
    session = Repository.create(in_memory_storage()).writable_session("main")
    root = zarr.group(session.store)
    values = np.arange(24.0).reshape(4, 2, 3)
    root.create_array(
        "v",
        data=values,
        dimension_names=["t", "y", "x"],
        attributes={"coordinates": "lat cube odd"},
        chunks=(1, 2, 2),
    )
    root.create_array("lat", data=values[0].T + 100, dimension_names=["x", "y"])
    root.create_array("cube", data=values.transpose(2, 0, 1) + 200, dimension_names=["x", "t", "y"])
    root.create_array("odd", data=np.zeros((2, 2)), dimension_names=["y", "y"])

    table = rows(plan_cells(session.store, CellQuery(array="v"), selection), session.store, batch=2)

    assert table.column_names == ["t", "y", "x", "cube", "lat", "v"]
    assert len(table) == (24 if selection is None else 16)
    found = table.to_pydict()
    assert found["cube"] == [value + 200 for value in found["v"]]
    assert found["lat"] == [value % 6 + 100 for value in found["v"]]
