"""Cells of every type: what was read is written, and is the same again."""

import numpy as np
import pyarrow as pa
import pytest
import zarr
from tests.unit.spark.cells.every_type import EVERY_TYPE, create_every_type
from zarr.abc.store import Store

from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery
from icestream.spark.cells.plans import plan_cells
from icestream.spark.writes.cell_rows import plan_rows
from icestream.spark.writes.cells import CellWriting
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.storage import in_memory_storage


def repository(name: str, *, filled: bool) -> Repository:
    repo = Repository.create(in_memory_storage())
    with repo.transaction("main", message="one array") as store:
        create_every_type(store, [name], filled=filled)
    return repo


def store_of(repo: Repository) -> Store:
    return repo.readonly_session("main").store


def cells(repo: Repository, query: CellQuery) -> pa.Table:
    plan, store = plan_cells(store_of(repo), query), store_of(repo)
    return pa.Table.from_batches([b for block in plan.blocks() for b in plan.batches(store, block)])


def write(rows: pa.Table, repo: Repository, query: CellQuery) -> None:
    target = WriteTarget.of(repo, "main")
    job = CellWriting(target, plan_rows(store_of(repo), query, rows.column_names))
    target.commit(job.write(rows.to_batches()), CommitWords())


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("decode", [True, False], ids=["decoded", "stored"])
@pytest.mark.parametrize("name", EVERY_TYPE)
def test_cells_of_every_type_are_written_as_they_were_read(name: str, *, decode: bool) -> None:
    query = CellQuery(array=name, decode=decode)
    source, other = repository(name, filled=True), repository(name, filled=False)
    rows = cells(source, query)

    write(rows.slice(0, 1), other, query)  # a part of a chunk
    write(rows, other, query)

    values, attributes = EVERY_TYPE[name]
    stored = np.asarray(zarr.open_array(store_of(other), path=name)[:])
    np.testing.assert_array_equal(stored, values)
    fills = {"_FillValue", "missing_value"} & attributes.keys()
    assert rows[name].null_count >= len(fills) * decode
