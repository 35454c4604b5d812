"""References of arrays, cut into the pieces that manifests are packed from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from icestream.model.chunk_tables import ChunkTable
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.model.manifest_sets import DEFAULT_SET, ChunkManifests, ManifestRule, ManifestSet
from icestream.model.nodes import ArrayNode
from icestream.packing.assignment import WHOLE_ARRAY, Cell
from icestream.packing.rules import apply_rules
from icestream.packing.splits import CellSizes, automatic_split_sizes, cells_of, split_sizes

MAX_CELLS_PER_FULL_MANIFEST = 4
"""Cells of a sparse array may be nearly empty: beyond this it is better left whole."""


@dataclass(frozen=True)
class PackingConfig:
    """How the references of a repository are spread over manifests."""

    chunk_manifests: ChunkManifests = field(default_factory=ChunkManifests)
    splitting: ManifestSplittingConfig | None = None
    """Rules that people gave; the implicit ones of icechunk are none."""

    @cached_property
    def sets(self) -> Mapping[str, ManifestSet]:
        """The sets in force, by name."""
        return {one.name: one for one in self.chunk_manifests.completed().sets}

    @cached_property
    def _rules(self) -> tuple[ManifestRule, ...]:
        return self.chunk_manifests.completed().rules

    def target_of(self, array: ArrayNode, initialized_chunks: int) -> str:
        """Return the name of the set that the rules send an array to."""
        return self.target_of_path(array.path, math.prod(array.num_chunks), initialized_chunks)

    def target_of_path(self, path: str, num_chunks: int, initialized_chunks: int) -> str:
        """Return the name of the set that the rules send an array of this size to."""
        return apply_rules(path, num_chunks, initialized_chunks, self._rules)

    def given_cells(self, array: ArrayNode) -> CellSizes | None:
        """Return how the rules split an array; None is not at all."""
        return split_sizes(array.path, array.dimension_names, array.num_chunks, self.splitting)

    def cells(self, array: ArrayNode) -> CellSizes | None:
        """Return how an array is split in the snapshot that is being changed."""
        given = self.given_cells(array)
        if given is not None or len(array.manifests) < 2:  # noqa: PLR2004  one manifest is no split
            return given
        return self.automatic_cells(array)

    def automatic_cells(self, array: ArrayNode) -> CellSizes | None:
        """Return how an array that is too large for one manifest is split; None if it is not."""
        default = self.sets[DEFAULT_SET]
        limit = default.max_manifest_size
        if limit is None or default.split_oversized is False:
            return None
        if math.prod(array.num_chunks) <= limit:
            return None
        return automatic_split_sizes(array.num_chunks, limit)

    def _cells_for(self, array: ArrayNode, table: ChunkTable) -> CellSizes | None:
        """Return how to split an array, now that its references are at hand."""
        sizes = self.cells(array)
        if sizes is not None:
            return sizes
        limit = self.sets[DEFAULT_SET].max_manifest_size
        sizes = self.automatic_cells(array)
        if sizes is None or limit is None or len(table) <= limit:
            return None
        worthwhile = MAX_CELLS_PER_FULL_MANIFEST * (len(table) // limit + 1)
        return sizes if len(cells_of(table.index, sizes)) <= worthwhile else None

    def cut(self, array: ArrayNode, table: ChunkTable) -> list[tuple[Cell, ChunkTable]]:
        """Return the references of an array cell by cell; a cell without any is not there."""
        if not len(table):
            return []
        sizes = self._cells_for(array, table)
        if sizes is None:
            return [(WHOLE_ARRAY, table)]
        return [(cell, table.take(rows)) for cell, rows in cells_of(table.index, sizes)]
