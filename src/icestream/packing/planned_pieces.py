"""The pieces that arrays would have under a plan, from facts alone."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from icestream.model.ids import NodeId
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.model.manifest_sets import DEFAULT_SET, ChunkManifests
from icestream.packing.assignment import Piece
from icestream.packing.rules import apply_rules
from icestream.packing.splits import CellSizes, automatic_split_sizes, split_sizes
from icestream.packing.workloads import ArrayFacts

_MAX_CELLS = 5_000
"""Of one array, for which packing is tried; more are taken to have manifests of their own."""

_NO_END = 2**32


@dataclass(frozen=True)
class PackingPlan:
    """Sets, rules and splits."""

    chunk_manifests: ChunkManifests = field(default_factory=ChunkManifests)
    splitting: ManifestSplittingConfig | None = None

    @cached_property
    def completed(self) -> ChunkManifests:
        """Sets and rules in force."""
        return self.chunk_manifests.completed()

    def target_of(self, array: ArrayFacts) -> str:
        """Return the set that the rules send an array to."""
        rules = self.completed.rules
        return apply_rules(array.path, array.metadata_chunks, array.references, rules)

    def cells_of(self, array: ArrayFacts) -> CellSizes | None:
        """Return how an array is split; None is not at all."""
        given = split_sizes(array.path, array.dimension_names, array.grid, self.splitting)
        if given is not None:
            return given
        default = next(one for one in self.completed.sets if one.name == DEFAULT_SET)
        limit = default.max_manifest_size
        if limit is None or default.split_oversized is False or array.references <= limit:
            return None
        return automatic_split_sizes(array.grid, limit)


@dataclass(frozen=True, slots=True)
class PlannedPieces:
    """Pieces of an array that are alike: one, or very many that are not worth packing."""

    piece: Piece
    touched: int
    """How many of them an append adds to."""
    headroom: int
    """References that appends may add to each of these before the next cell begins."""
    count: int = 1


def planned_pieces(array: ArrayFacts, node_id: NodeId, plan: PackingPlan) -> list[PlannedPieces]:
    """Return the pieces of an array; those without references are not there."""
    target = plan.target_of(array)
    sizes = plan.cells_of(array)
    if not array.references:
        return []
    if sizes is None:
        added = math.ceil(array.references_per_append)
        piece = Piece(node_id, (), array.references, target)
        return [PlannedPieces(piece, int(array.is_growing), added)]
    cells = [-(-n // size) for n, size in zip(array.grid, sizes, strict=True)]
    full = _references_of_full_cell(array, sizes)
    if math.prod(cells) > _MAX_CELLS:
        return [_many_alike(array, cells, full, Piece(node_id, (0,), 0, target))]
    pieces = []
    for cell, size in _cell_references(array, sizes, cells):
        is_last = array.is_growing and cell[array.append_axis] == cells[array.append_axis] - 1
        headroom = max(0, full - size) if is_last else 0
        pieces.append(PlannedPieces(Piece(node_id, cell, size, target), int(is_last), headroom))
    return pieces


def _many_alike(
    array: ArrayFacts, cells: Sequence[int], full: int, template: Piece
) -> PlannedPieces:
    count = math.prod(cells)
    size = max(1, round(array.references / count))
    touched = count // cells[array.append_axis] if array.is_growing else 0
    piece = Piece(template.array, template.cell, size, template.target)
    return PlannedPieces(piece, touched, max(0, full - size), count)


def _references_of_full_cell(array: ArrayFacts, sizes: CellSizes) -> int:
    grid = list(array.grid)
    if array.is_growing:
        grid[array.append_axis] = _NO_END
    return round(math.prod(map(min, sizes, grid)) * array.density)


def _cell_references(
    array: ArrayFacts, sizes: CellSizes, cells: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield cells and their references, as many as their part of the chunks."""
    chunks = np.ones(cells)
    for axis, (n, size, count) in enumerate(zip(array.grid, sizes, cells, strict=True)):
        lengths = np.full(count, float(size))
        lengths[-1:] = n - (count - 1) * size
        shape = [1] * len(cells)
        shape[axis] = count
        chunks *= lengths.reshape(shape)
    references = np.rint(chunks * array.density).astype(np.int64)
    for cell in zip(*np.nonzero(references), strict=True):
        yield tuple(map(int, cell)), int(references[cell])
