"""The benchmark of the data source measures what it says."""

from benchmarks.array_source import UnreadReader, build_array, selected_share

from icestream.spark.cells.grids import CellQuery
from icestream.spark.cells.plans import plan_cells
from icestream.storage import in_memory_storage


def test_a_hundredth_of_the_chunks_is_a_hundredth_of_the_bytes() -> None:
    storage = in_memory_storage()
    build_array(50, storage)

    share = selected_share(storage)

    assert share.cells == 0.01
    assert 0.005 < share.bytes_read < 0.02


def test_the_source_that_reads_nothing_has_batches_of_the_same_sizes() -> None:
    repo = build_array(2, in_memory_storage())
    store = repo.readonly_session("main").store
    plan = plan_cells(store, CellQuery())
    reader = UnreadReader(plan, plan.blocks(200_000))

    unread = [batch for part in reader.partitions() for batch in reader.read(part)]
    read = [b for block in plan.blocks(200_000) for b in plan.batches(store, block)]

    assert [batch.num_rows for batch in unread] == [batch.num_rows for batch in read]
    assert unread[0].schema == read[0].schema
