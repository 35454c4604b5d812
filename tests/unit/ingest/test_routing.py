"""Which task gets which references."""

import numpy as np
import pytest
from tests.tables import refs_of

from icestream.ingest.engines.routing import Destination, route
from icestream.ingest.engines.scanning import ReferenceBlob, blobs_of
from icestream.model.chunk_refs import VirtualRef
from icestream.model.chunk_tables import ChunkTable, concat, dense_index
from icestream.packing.assignment import WHOLE_ARRAY


def table_of(num_chunks: tuple[int, ...], url: str = "s3://b/file.nc") -> ChunkTable:
    index = dense_index(num_chunks).tolist()
    refs = {tuple(at): VirtualRef(url, 100 * i, 100) for i, at in enumerate(index)}
    return ChunkTable.from_refs(refs, len(num_chunks))


def gathered(blobs: list[ReferenceBlob], destination: Destination) -> dict[int, ChunkTable]:
    """Return what each task ends up with."""
    tables: dict[int, list[ChunkTable]] = {}
    for blob in blobs:
        for routed in route(blob, (destination,)):
            tables.setdefault(routed.task, []).append(routed.table())
    return {task: concat(parts) for task, parts in tables.items()}


def destination_of(offsets: list[list[int]], **others) -> Destination:
    offset = np.array(offsets, np.int64)
    return Destination(offset, others.pop("brings", np.ones(len(offset), bool)), **others)


def test_small_files_share_a_blob_and_are_parted_again():
    tables = [(i, "/sst", table_of((1, 2), f"s3://b/{i}.nc")) for i in range(4)]
    blobs = list(blobs_of(tables))
    destination = destination_of(
        [[i, 0] for i in range(4)], cell_sizes=(2, 10), tasks={(0, 0): 5, (1, 0): 6}
    )

    found = gathered(blobs, destination)

    assert len(blobs) == 1
    assert found[5].index.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert found[6].location_column().to_pylist() == ["s3://b/2.nc"] * 2 + ["s3://b/3.nc"] * 2


def test_a_large_file_in_one_cell_is_passed_on_unopened():
    [blob] = blobs_of([(1, "/sst", table_of((1, 5000)))])
    destination = destination_of([[0, 0], [7, 0]], cell_sizes=(1, 5000), tasks={(7, 0): 3})

    [routed] = route(blob, (destination,))

    assert routed.payload is blob.payload
    assert routed.table().extents == ((7, 8), (0, 5000))


@pytest.mark.parametrize("sizes", [(1, 1000), (2, 999), None])
def test_a_large_file_is_cut_where_cells_end(sizes):
    whole = table_of((2, 2500))
    [blob] = blobs_of([(0, "/sst", whole)])
    cells = {WHOLE_ARRAY: 0}
    if sizes is not None:
        cells = {(i, j): 10 * i + j for i in range(9) for j in range(9)}
    destination = destination_of([[4, 0]], cell_sizes=sizes, tasks=cells)

    found = concat(list(gathered([blob], destination).values()))

    expected = {(4 + i, j): ref for (i, j), ref in refs_of(whole).items()}
    assert refs_of(found) == expected


def test_files_without_a_place_in_the_array_bring_nothing():
    blobs = [*blobs_of([(0, "/a", table_of((1,))), (1, "/a", table_of((1,)))])]
    destination = destination_of([[0], [0]], brings=np.array([False, True]), tasks={WHOLE_ARRAY: 0})

    assert len(gathered(blobs, destination)[0]) == 1


def test_files_get_the_dimension_that_they_lack():
    [blob] = blobs_of([(0, "/a", table_of((3,)))])
    destination = destination_of([[9, 0]], num_new=1, tasks={WHOLE_ARRAY: 0})

    assert gathered([blob], destination)[0].index.tolist() == [[9, 0], [9, 1], [9, 2]]


def test_a_scalar_comes_from_the_file_that_supplies_it():
    scalars = [(i, "/crs", table_of((), f"s3://b/{i}")) for i in (0, 1)]
    destination = Destination(
        np.empty((2, 0), np.int64), np.array([True, False]), tasks={WHOLE_ARRAY: 0}
    )

    found = gathered([*blobs_of(scalars)], destination)[0]

    assert found.location_column().to_pylist() == ["s3://b/0"]
