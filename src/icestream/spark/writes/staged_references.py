"""References of large arrays: planned by the boxes that they cover, published as manifests."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icestream.model.nodes import ArrayNode, Extents
from icestream.repository.session import Session
from icestream.repository.staged.cells import CellPlan, WrittenCell
from icestream.repository.staged.planning import plan_cells
from icestream.repository.staged.publishing import publish_staged, split_into_commits
from icestream.spark.writes.targets import CommitWords


@dataclass(frozen=True, slots=True)
class ReferenceBoxes:
    """What the driver knows of the new references of an array."""

    extents: Sequence[Extents]
    num_references: int


def array_at(session: Session, path: str) -> ArrayNode:
    """Return an array of a session."""
    return session._copy.get_array(path)  # noqa: SLF001  sessions show arrays through zarr only


def has_own_manifests(session: Session, path: str, num_references: int) -> bool:
    """Tell whether an array with so many references shares its manifests with no other."""
    packing = session._copy.context.packing  # noqa: SLF001  as above
    num_chunks = math.prod(array_at(session, path).num_chunks)
    target = packing.target_of_path(path, num_chunks, num_references)
    return packing.sets[target].cardinality is None


def plan_array(session: Session, path: str, boxes: ReferenceBoxes) -> CellPlan:
    """Return which manifests of an array have to be written."""
    array = array_at(session, path)
    added = np.array(boxes.extents, np.int64).reshape(len(boxes.extents), len(array.shape), 2)
    packing = session._copy.context.packing  # noqa: SLF001  as above
    return plan_cells(array, array, packing, index_map=None, added=added)


def publish_cells(
    session: Session, plans: Sequence[CellPlan], cells: Sequence[WrittenCell], words: CommitWords
) -> str:
    """Make manifests that were written, and the edits of a session, a version; return its id.

    Raises:
        ConflictError: Somebody else committed to the branch meanwhile; nothing is changed.
    """
    by_path: defaultdict[str, list[WrittenCell]] = defaultdict(list)
    for cell in cells:
        by_path[cell.path].append(cell)
    parts = split_into_commits({plan.path: (plan, by_path[plan.path]) for plan in plans})
    return publish_staged(session, parts, words.message, dict(words.metadata or {}))
