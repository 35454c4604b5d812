"""What became of a derived array since the last pull: others may have changed its repository.

The version that the last pull left is compared with the one that is there now, by metadata and
references; other arrays do not count.
"""

from dataclasses import dataclass

import numpy as np
import zarr

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ingest.array_derivation.changes import changed_chunks, is_same_array, is_unchanged
from icestream.ingest.array_derivation.states import DerivationState
from icestream.model.chunk_tables import UInt32, dense_index
from icestream.repository.session import Session
from icestream.spark.derived_arrays.computing import Computation
from icestream.spark.derived_arrays.outputs import Standing, find_output, output_coordinates


@dataclass(frozen=True, slots=True, eq=False)
class OutputVersions:
    """The output as a pull left it, and as it is."""

    left: Session | None
    """None if there was no pull, or its snapshot has expired."""
    now: Session
    is_ours: bool
    """Whether an earlier pull made what is at its place."""

    def standing(self, computation: Computation, last: DerivationState | None) -> Standing:
        """Return what is at the place of the output."""
        if last is None or not self.is_ours:
            return Standing.NEW
        is_kept = self._has_form(computation, last) and self._is_left(computation)
        return Standing.KEPT if is_kept else Standing.LOST

    def touched_chunks(self, computation: Computation) -> UInt32:
        """Return the chunks of an array that was kept which somebody else set or deleted."""
        num_chunks = computation.num_chunks
        if self.left is None:
            return dense_index(num_chunks)[:0]
        touched = changed_chunks(self.left, self.now, computation.derivation.output.array)
        return touched[(touched < np.array(num_chunks)).all(axis=1)]

    def has_coordinates(self, source: Session | None, computation: Computation) -> bool:
        """Tell whether what is beside the array is as the input asks for.

        Args:
            source: The version of the input that the last pull used; None if it has expired.
            computation: Of the version that is to be used now.
        """
        if source is not None and self._are_unchanged(source, computation):
            return True
        folder = computation.derivation.output.group.strip("/")
        group = zarr.open_group(self.now.store, path=folder, mode="r", zarr_format=3)
        wanted = output_coordinates(computation.pinned.session.store, computation)
        return all(coordinate.is_stored(group) for coordinate in wanted)

    def _has_form(self, computation: Computation, last: DerivationState) -> bool:
        """Tell whether the array is one that the last pull may have left."""
        found = find_output(self.now.store, computation.derivation)
        return (
            found is not None
            and (found.chunks, found.dtype) == (computation.chunks, computation.dtype)
            and found.shape[computation.array.axis] == len(last.axis)
        )

    def _is_left(self, computation: Computation) -> bool:
        """Tell whether the array is the one that the last pull left, as far as that is known."""
        path = computation.derivation.output.array
        return self.left is None or is_same_array(self.left, self.now, path, but_for=None)

    def _are_unchanged(self, source: Session, computation: Computation) -> bool:
        """Tell by references alone whether all coordinates are those of the last pull."""
        array, left = computation.array, self.left
        if left is None:
            return False
        paths = {each.name: each.path for each in array.companions}
        if array.along.path is not None:
            paths[array.along.name] = array.along.path
        given, folder = computation.pinned.session, computation.derivation.output.group.rstrip("/")
        try:
            return all(
                is_unchanged(source, given, path)
                and is_unchanged(left, self.now, f"{folder}/{name}")
                for name, path in paths.items()
            )
        except (NotFoundError, InvalidInputError):  # gone, or a group
            return False
