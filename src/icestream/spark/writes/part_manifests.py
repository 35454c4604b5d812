"""Manifests that tasks write of their own references, and how they become those of arrays.

A task of `df.write` does not know what the others have. So it writes its references of each split
cell as a manifest, and tells the driver where that is and what it covers. A cell that one task has
alone, and that had no references before, has its manifest so; others are put together, cell by
cell. What a task has few of travels to the driver.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.chunk_tables import ChunkTable, concat
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import Extents, ManifestRef
from icestream.packing.splits import cells_of
from icestream.repository.session import ForkSession, Session
from icestream.repository.staged.cells import CellTask, WrittenCell
from icestream.repository.staged.writing import write_cell
from icestream.spark.writes.staged_references import (
    ReferenceBoxes,
    array_at,
    has_own_manifests,
    plan_array,
    publish_cells,
)
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.spark.writes.written_tables import (
    ArrayTables,
    join_tables,
    put_tables,
    without_repeats,
)

MANY = 10_000
"""References of an array from which on a task writes manifests of them."""


@dataclass(frozen=True, slots=True)
class PartManifest:
    """References of one task in one split cell, in a manifest that nothing refers to yet."""

    path: str
    file: ManifestFile
    extents: Extents
    changed: ChangedIndexes


@dataclass(frozen=True, slots=True)
class TaskReferences:
    """What one task has written."""

    tables: ArrayTables
    """Of arrays of which it has few."""
    parts: tuple[PartManifest, ...] = ()
    """Of the others."""


# -- on executors ---------------------------------------------------------------------------------


def write_parts(fork: ForkSession, tables: ArrayTables, *, many: int = MANY) -> TaskReferences:
    """Write the references of a task as manifests, where it has many.

    Args:
        fork: A session of the task, on the version that is written on.
        tables: Its references.
        many: How many these are.
    """
    parts: list[PartManifest] = []
    for path, table in tables.items():
        if len(table) >= many:
            parts += _parts(fork, path, table)
    few = {path: table for path, table in tables.items() if len(table) < many}
    return TaskReferences(few, tuple(parts))


def _parts(fork: ForkSession, path: str, table: ChunkTable) -> Iterator[PartManifest]:
    context, array = fork._copy.context, array_at(fork, path)  # noqa: SLF001  as sessions do it
    assets, spec = context.assets, context.timeline.spec
    sizes = context.packing.given_cells(array) or context.packing.automatic_cells(array)
    cells = [slice(None)] if sizes is None else [rows for _, rows in cells_of(table.index, sizes)]
    for cell in map(table.take, cells):
        locations = assets.settings.locations.of(path)
        file = assets.save_manifest({array.id: cell}, spec=spec, locations=locations)
        yield PartManifest(path, file, cell.extents, ChangedIndexes.of(cell.index))


# -- on the driver --------------------------------------------------------------------------------


def commit_parts(
    target: WriteTarget, written: Sequence[TaskReferences], words: CommitWords, *, remedy: str
) -> str | None:
    """Make what tasks have written a version; return its id, None if there is nothing.

    Args:
        target: The branch.
        written: By the tasks.
        words: Of the commit; manifests of large arrays are never rebased.
        remedy: What to do when two tasks have the same chunk.

    Raises:
        ConflictError: Somebody else committed to the branch meanwhile; nothing is changed.
        InvalidInputError: A chunk was written by more than one task.
    """
    parts: defaultdict[str, list[PartManifest]] = defaultdict(list)
    for part in (part for task in written for part in task.parts):
        parts[part.path].append(part)
    session = target.session()
    loading = _Parts(session, remedy)
    shared = [path for path, found in parts.items() if not _are_own(session, path, found)]
    taken_back = [{path: loading.table(part)} for path in shared for part in parts.pop(path)]
    tables = join_tables([*(task.tables for task in written), *taken_back], remedy=remedy)
    if not parts:
        return target.commit(tables, words)
    plans, cells = [], []
    for path, found in parts.items():
        table = tables.get(path)
        plan = plan_array(session, path, _boxes(found, table))
        plans.append(plan)
        cells += [loading.cell(task, found, table) for task in plan.tasks]
    put_tables(session, {path: table for path, table in tables.items() if path not in parts})
    return publish_cells(session, plans, cells, words)


def _are_own(session: Session, path: str, parts: Sequence[PartManifest]) -> bool:
    return has_own_manifests(session, path, sum(part.file.num_refs for part in parts))


def _boxes(parts: Sequence[PartManifest], table: ChunkTable | None) -> ReferenceBoxes:
    extents = [part.extents for part in parts]
    count = sum(part.file.num_refs for part in parts)
    if table is None:
        return ReferenceBoxes(extents, count)
    return ReferenceBoxes([*extents, table.extents], count + len(table))


@dataclass(frozen=True, slots=True)
class _Parts:
    """Turns the manifests of tasks into those of cells."""

    session: Session
    remedy: str

    def table(self, part: PartManifest) -> ChunkTable:
        """Return the references of a part."""
        assets = self.session._copy.context.assets  # noqa: SLF001  as sessions do it
        return assets.load_manifest(part.file.id).arrays[array_at(self.session, part.path).id]

    def cell(
        self, task: CellTask, parts: Sequence[PartManifest], table: ChunkTable | None
    ) -> WrittenCell:
        """Return the manifest of a cell: that of a task, or one that is put together."""
        reaching = [part for part in parts if _meet(part.extents, task.box)]
        is_reached = table is not None and _meet(table.extents, task.box)
        if len(reaching) == 1 and not (task.old or is_reached):
            (part,) = reaching
            if _is_inside(part.extents, task.box):
                return _as_cell(task, part)
        context = self.session._copy.context  # noqa: SLF001  as above
        found = [self.table(part) for part in reaching]
        found += [table] if table is not None and is_reached else []
        additions = [without_repeats(task.path, concat(found), remedy=self.remedy)] if found else []
        return write_cell(context.assets, task, additions, spec=context.timeline.spec)


def _as_cell(task: CellTask, part: PartManifest) -> WrittenCell:
    count = part.file.num_refs
    return WrittenCell(
        path=task.path,
        cell=task.cell,
        file=part.file,
        ref=ManifestRef(part.file.id, part.extents),
        num_references=count,
        num_added=count,
        changed=part.changed,
    )


def _meet(one: Extents, other: Extents) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


def _is_inside(inner: Extents, outer: Extents) -> bool:
    return all(c <= a and b <= d for (a, b), (c, d) in zip(inner, outer, strict=True))
