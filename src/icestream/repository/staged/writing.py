"""The references of one cell become a manifest; memory is that of one cell."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from icestream.assets.assets import Assets
from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.chunk_tables import (
    ChunkTable,
    UInt32,
    concat,
    is_strictly_ascending,
    overlay,
    replace_columns,
)
from icestream.model.index_maps import Box, inside
from icestream.model.nodes import ManifestRef
from icestream.model.transaction_logs import merge_indexes
from icestream.repository.staged.cells import CellTask, WrittenCell


def write_cell(
    assets: Assets, task: CellTask, additions: Sequence[ChunkTable], *, spec: int
) -> WrittenCell:
    """Write the manifest of one cell: new references over those of earlier manifests.

    Args:
        assets: The files of the repository.
        task: The cell.
        additions: New references, with locations as they are stored, in any order; those of
            other cells are left out. Rows of kind `uninitialized` delete.
        spec: The version of the format.

    Raises:
        InvalidInputError: Two of the new references are for the same chunk.
    """
    files = _without_cache(assets)
    added = _joined(task, additions)
    carried = [_carry(task, table) for table in _old_tables(files, task)]
    table = concat([one.table for one in carried] or [ChunkTable.empty(len(task.box))])
    table = overlay(table, added).without_deletions()
    changed = reduce(
        merge_indexes, (index for one in carried for index in one.changed), added.index
    )
    file = ref = None
    if len(table):
        locations = files.settings.locations.of(task.path)
        file = files.save_manifest({task.array_id: table}, spec=spec, locations=locations)
        ref = ManifestRef(file.id, table.extents)
    return WrittenCell(
        path=task.path,
        cell=task.cell,
        file=file,
        ref=ref,
        num_references=len(table),
        num_added=len(added),
        changed=ChangedIndexes.of(changed),
    )


def _without_cache(assets: Assets) -> Assets:
    """Return the same files without a memory of manifests, which would hold many cells."""
    return Assets(assets.storage, replace(assets.settings, cached_chunk_refs=0))


# -- what is new ----------------------------------------------------------------------------------


def _joined(task: CellTask, additions: Sequence[ChunkTable]) -> ChunkTable:
    parts = [_within_box(table, task.box) for table in additions if len(table)]
    # in this order they often are sorted as a whole
    parts = sorted((part for part in parts if len(part)), key=lambda part: part.index[0].tolist())
    table = concat(parts or [ChunkTable.empty(len(task.box))])
    if len(parts) > 1 and not is_strictly_ascending(table.index):
        repeated = (table.index[1:] == table.index[:-1]).all(axis=1)
        index = tuple(table.index[int(repeated.argmax())].tolist())
        raise InvalidInputError(
            f"there are two new references for chunk {index} of {task.path}; give each chunk one",
            kind=ErrorKind.INVALID_CHUNK_INDEX,
        )
    return table


def _within_box(table: ChunkTable, box: Box) -> ChunkTable:
    if _covers(box, table.extents):
        return table
    return table.take(inside(table.index, box))


def _covers(outer: Box, inner: Box) -> bool:
    pairs = zip(outer, inner, strict=True)
    return all(lo <= start and end <= hi for (lo, hi), (start, end) in pairs)


# -- what was there -------------------------------------------------------------------------------


class _Carried(NamedTuple):
    """What a cell has from one earlier manifest."""

    table: ChunkTable
    changed: tuple[UInt32, ...]
    """Chunks of the cell that got a reference by moving it, or lost theirs."""


def _old_tables(assets: Assets, task: CellTask) -> Iterator[ChunkTable]:
    for manifest_id in task.old:
        table = assets.load_manifest(manifest_id).arrays.get(task.array_id)
        if table is not None:
            # what lies outside the array was never to be seen
            yield table.within(task.grid_before)


def _carry(task: CellTask, table: ChunkTable) -> _Carried:
    if task.index_map is None and _covers(task.box, table.extents):
        return _Carried(table, ())
    old = new = table.index
    stays = inside(new, task.box)
    same = stays
    if task.index_map is not None:
        new, kept = task.index_map.targets(old)
        stays = kept & inside(new, task.box)
        same = stays & (new == old).all(axis=1)
    left = inside(old, task.reach) & ~same
    carried = replace_columns(table.take(stays), index=new[stays])
    return _Carried(carried, (new[stays & ~same], old[left]))
