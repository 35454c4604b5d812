"""What is known of a repository, or planned: its arrays, and how they grow."""

import math
from dataclasses import dataclass, replace
from typing import Self

DAYS_PER_YEAR = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFacts:
    """The grid and the references of an array, and what one append adds."""

    path: str
    grid: tuple[int, ...]
    """Chunks per dimension."""
    references: int
    """Chunks that have one."""
    dimension_names: tuple[str | None, ...] | None = None
    append_axis: int = 0
    """The dimension that grows."""
    chunks_per_append: float = 0
    """Chunks that an append adds along that dimension; 0 is an array that does not grow."""
    metadata_bytes: int = 600
    """Of its zarr.json."""

    @property
    def metadata_chunks(self) -> int:
        """How many chunks the shape has room for."""
        return math.prod(self.grid)

    @property
    def density(self) -> float:
        """The part of the chunks that have references; all in an array that has no chunks yet."""
        return self.references / self.metadata_chunks if self.metadata_chunks else 1.0

    @property
    def cross_section(self) -> int:
        """Chunks that one step along the dimension that grows has."""
        return math.prod(n for axis, n in enumerate(self.grid) if axis != self.append_axis)

    @property
    def is_growing(self) -> bool:
        """Whether an append adds to the array."""
        return self.chunks_per_append > 0 and bool(self.grid)

    @property
    def references_per_append(self) -> float:
        """References that an append adds."""
        return self.chunks_per_append * self.cross_section * self.density if self.grid else 0.0

    def grown(self, appends: float) -> Self:
        """Return the array after so many appends."""
        if not self.is_growing:
            return self
        grid = list(self.grid)
        grid[self.append_axis] += round(appends * self.chunks_per_append)
        added = round(appends * self.references_per_append)
        return replace(self, grid=tuple(grid), references=self.references + added)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The arrays of a repository and the commits that append to them."""

    arrays: tuple[ArrayFacts, ...]
    appends_per_day: float = 1.0
    bytes_per_reference: float = 15.0
    """In a stored manifest."""
    location_length: int = 100
    """Characters of the location of a virtual chunk."""
    commits: int = 1
    """Snapshots that the history has."""

    @property
    def references(self) -> int:
        """References of all arrays."""
        return sum(array.references for array in self.arrays)

    @property
    def references_per_append(self) -> float:
        """References that an append adds to all arrays."""
        return sum(array.references_per_append for array in self.arrays)

    def after(self, days: float) -> Self:
        """Return the workload after some days."""
        appends = days * self.appends_per_day
        return replace(
            self,
            arrays=tuple(array.grown(appends) for array in self.arrays),
            commits=self.commits + round(appends),
        )
