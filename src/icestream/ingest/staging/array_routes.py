"""One virtual array on its way into the repository: how large it is, and where its chunks go."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from icestream.ingest.engines.protocol import Destinations
from icestream.ingest.engines.routing import Destination
from icestream.ingest.staging.workbenches import Workbench
from icestream.ingest.updates.array_updates import ArrayUpdate, chunk_sizes
from icestream.model.nodes import ArrayNode
from icestream.packing.assignment import Cell
from icestream.packing.splits import CellSizes

LARGE_ARRAY = 10_000
"""References from which on an array's manifests are written by executors."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArrayRoute:
    """An array that gets references, or whose references move."""

    path: str
    update: ArrayUpdate
    before: ArrayNode | None
    """In the version that is changed; None if it is new."""
    destination: Destination
    """Where scanned files go; tasks are not known yet."""

    @property
    def num_added(self) -> int:
        """How many references files bring at most."""
        boxes = self.update.added_boxes
        return int(np.prod(boxes[:, :, 1] - boxes[:, :, 0], axis=1).sum())

    def to(self, tasks: Mapping[Cell, int], cell_sizes: CellSizes | None = None) -> Destination:
        """Return where files go, with the tasks that write the cells of the array."""
        return replace(self.destination, tasks=tasks, cell_sizes=cell_sizes)


def route_of(path: str, update: ArrayUpdate, bench: Workbench) -> ArrayRoute:
    """Return how an array is updated."""
    node = bench.copy.nodes.find(path)
    return ArrayRoute(
        path=path,
        update=update,
        before=node if isinstance(node, ArrayNode) and not update.is_new else None,
        destination=_destination(update, bench),
    )


def _destination(update: ArrayUpdate, bench: Workbench) -> Destination:
    count = bench.scans.num_ordinals
    offset = np.zeros((count, update.chunk_offset.shape[1]), np.int64)
    brings = np.zeros(count, np.bool_)
    scanned = [bench.scans.ordinals.get(bench.urls[row], -1) for row in update.files.tolist()]
    ordinals = np.array(scanned, np.intp)
    is_scanned = ordinals >= 0  # references of the others are known
    offset[ordinals[is_scanned]] = update.chunk_offset[is_scanned]
    brings[ordinals[is_scanned]] = True
    return Destination(offset, brings, update.num_new)


def is_large(route: ArrayRoute, bench: Workbench) -> bool:
    """Tell whether an array gets manifests of its own: it is large, and no rule packs it."""
    files = bench.copy.snapshot.manifest_files
    refs = () if route.before is None else route.before.manifests
    count = route.num_added + sum(files[i].num_refs for i in {ref.manifest_id for ref in refs})
    if count < LARGE_ARRAY:
        return False
    shape = route.update.array.metadata["shape"]
    num_chunks = math.prod((-(-np.array(shape) // chunk_sizes(route.update.array))).tolist())
    packing = bench.copy.context.packing
    target = packing.target_of_path(route.path, num_chunks, count)
    return packing.sets[target].cardinality is None


def by_source(routes: Iterable[tuple[ArrayRoute, Destination]]) -> Destinations:
    """Return destinations by the path that arrays have in files."""
    found: dict[str, tuple[Destination, ...]] = {}
    for route, destination in routes:
        if destination.brings.any():
            source = route.update.path
            found[source] = (*found.get(source, ()), destination)
    return found
