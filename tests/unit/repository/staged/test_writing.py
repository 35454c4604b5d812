"""One cell becomes one manifest."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.tables import Refs, refs_of

from icestream.assets.assets import Assets, AssetSettings
from icestream.errors import InvalidInputError
from icestream.model.chunk_refs import ChunkRef, InlineRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import NodeId
from icestream.model.index_maps import IndexMap
from icestream.repository.staged.cells import CellTask, WrittenCell
from icestream.repository.staged.writing import write_cell
from icestream.storage import in_memory_storage

ARRAY, OTHER = NodeId(b"array-id"), NodeId(b"other-id")


@pytest.fixture
def assets() -> Assets:
    return Assets(in_memory_storage(), AssetSettings())


def refs(*places: int, label: str = "old") -> Refs:
    return {(place,): InlineRef(f"{label} {place}".encode()) for place in places}


def table(some: Refs) -> ChunkTable:
    return ChunkTable.from_refs(some, 1)


def task(assets: Assets, *old: Refs, end: int = 10, **settings: Any) -> CellTask:
    """Return the task for the chunks from 0 to 10, written from manifests with these chunks."""
    files = [
        assets.save_manifest({ARRAY: table(one), OTHER: table(refs(99))}, spec=2, locations=None)
        for one in old
    ]
    plain = CellTask(
        array_id=ARRAY,
        path="/a",
        cell=(0,),
        box=((0, end),),
        reach=((0, 10),),
        grid_before=(20,),
        old=tuple(file.id for file in files),
    )
    return replace(plain, **settings)


def content(assets: Assets, written: WrittenCell) -> dict[int, ChunkRef | None]:
    assert written.file is not None
    assert written.ref is not None
    manifest = assets.load_manifest(written.file.id)
    assert list(manifest.arrays) == [ARRAY]
    found = manifest.arrays[ARRAY]
    assert written.ref.extents == found.extents
    assert written.file.num_refs == written.num_references == len(found)
    return {index[0]: ref for index, ref in refs_of(found).items()}


def changed(written: WrittenCell) -> list[int]:
    return [int(place) for (place,) in written.changed.decode()]


def texts(found: dict[int, ChunkRef | None]) -> dict[int, str]:
    return {i: ref.data.decode() for i, ref in found.items() if isinstance(ref, InlineRef)}


def test_additions_are_sorted_and_written(assets: Assets) -> None:
    parts = [table(refs(5, 7)), table(refs(1)), table(refs(6)), ChunkTable.empty(1)]
    written = write_cell(assets, task(assets), parts, spec=2)
    assert texts(content(assets, written)) == {i: f"old {i}" for i in (1, 5, 6, 7)}
    assert changed(written) == [1, 5, 6, 7]
    assert written.num_added == 4
    assert (written.path, written.cell) == ("/a", (0,))


def test_additions_replace_what_was_there(assets: Assets) -> None:
    job = task(assets, refs(0, 1), refs(2))
    written = write_cell(assets, job, [table(refs(1, 3, label="new"))], spec=2)
    expected = {0: "old 0", 1: "new 1", 2: "old 2", 3: "new 3"}
    assert texts(content(assets, written)) == expected
    assert changed(written) == [1, 3]
    assert written.num_added == 2


def test_references_of_other_cells_are_left_to_them(assets: Assets) -> None:
    job = task(assets, refs(1, 12))
    written = write_cell(assets, job, [table(refs(5, 15))], spec=2)
    assert set(content(assets, written)) == {1, 5}
    assert changed(written) == [5]
    assert written.num_added == 1


def test_moved_references_are_named_where_they_were_and_where_they_are(assets: Assets) -> None:
    index_map = IndexMap((np.array([0, 1, 4, 5, -1, *range(10, 25)]),))
    job = task(assets, refs(0, 2, 3, 4, 6), index_map=index_map)
    written = write_cell(assets, job, [], spec=2)
    assert texts(content(assets, written)) == {0: "old 0", 4: "old 2", 5: "old 3"}
    assert changed(written) == [2, 3, 4, 5, 6]


def test_references_move_in_from_other_cells(assets: Assets) -> None:
    index_map = IndexMap((np.array([*[-1] * 10, *range(10)]),))
    job = task(assets, refs(3, 13), index_map=index_map)
    written = write_cell(assets, job, [], spec=2)
    assert texts(content(assets, written)) == {3: "old 13"}
    assert changed(written) == [3]


def test_references_beyond_the_array_go(assets: Assets) -> None:
    written = write_cell(assets, task(assets, refs(2, 3, 4), end=3), [], spec=2)
    assert texts(content(assets, written)) == {2: "old 2"}
    assert changed(written) == [3, 4]


def test_references_that_were_never_to_be_seen_are_not_named(assets: Assets) -> None:
    job = task(assets, refs(2, 5), grid_before=(4,))
    written = write_cell(assets, job, [], spec=2)
    assert set(content(assets, written)) == {2}
    assert changed(written) == []


def test_a_cell_without_references_has_no_manifest(assets: Assets) -> None:
    job = task(assets, refs(2), index_map=IndexMap((None,), (((0, 5),),)))
    written = write_cell(assets, job, [], spec=2)
    assert (written.file, written.ref, written.num_references) == (None, None, 0)
    assert changed(written) == [2]


def test_deletions_delete(assets: Assets) -> None:
    job = task(assets, refs(1, 2))
    written = write_cell(assets, job, [ChunkTable.from_refs({(2,): None}, 1)], spec=2)
    assert set(content(assets, written)) == {1}
    assert changed(written) == [2]


def test_two_new_references_for_one_chunk_are_refused(assets: Assets) -> None:
    with pytest.raises(InvalidInputError, match=r"chunk \(5,\) of /a"):
        write_cell(assets, task(assets), [table(refs(4, 5)), table(refs(5, 6))], spec=2)


def test_a_manifest_that_lacks_the_array_is_passed_over(assets: Assets) -> None:
    file = assets.save_manifest({OTHER: table(refs(1))}, spec=2, locations=None)
    written = write_cell(assets, task(assets, old=(file.id,)), [table(refs(3))], spec=2)
    assert set(content(assets, written)) == {3}


def test_written_cells_are_not_kept_in_memory(assets: Assets) -> None:
    written = write_cell(assets, task(assets), [table(refs(3))], spec=2)
    assert written.file is not None
    assert assets.find_cached_manifest(written.file.id) is None


def test_tasks_and_answers_travel_as_few_bytes(assets: Assets) -> None:
    many: Refs = {(i,): VirtualRef(f"s3://bucket/{i}", 0, 10) for i in range(3000)}
    job = task(assets, box=((0, 3000),), reach=((0, 3000),))
    job = pickle.loads(pickle.dumps(job))
    sent = pickle.dumps(write_cell(assets, job, [table(many)], spec=2))
    assert len(sent) < 1000
    assert pickle.loads(sent).changed.decode()[:, 0].tolist() == list(range(3000))
