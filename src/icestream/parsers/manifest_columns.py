"""The references of a chunk manifest as columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from virtualizarr.manifests import ChunkManifest
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH, MISSING_CHUNK_PATH

from icestream.model.chunk_tables import UInt32, UInt64
from icestream.model.locations import SCHEME

_NO_LOCATIONS = pa.array([MISSING_CHUNK_PATH, INLINED_CHUNK_PATH], pa.large_string())


@dataclass(frozen=True, slots=True)
class ManifestColumns:
    """One row per chunk of a grid, in C order."""

    grid: tuple[int, ...]
    """Chunks per dimension."""
    locations: pa.DictionaryArray
    """Null where the chunk is missing, or not in a file."""
    offsets: UInt64
    lengths: UInt64
    inlined: Mapping[tuple[int, ...], bytes]
    """Chunks that are not in a file, by index."""

    @staticmethod
    def of(manifest: ChunkManifest, protocol: str | None = None) -> "ManifestColumns":
        """Return the columns of a manifest; `protocol` takes the place of schemes."""
        # the columns of a manifest have no public name, and its public methods loop over chunks
        paths, inlined = manifest._paths, manifest._inlined  # noqa: SLF001
        offsets, lengths = manifest._offsets, manifest._lengths  # noqa: SLF001
        return ManifestColumns(
            grid=paths.shape,
            locations=_with_protocol(_encoded(paths.ravel()), protocol),
            offsets=offsets.ravel(),
            lengths=lengths.ravel(),
            inlined=inlined,
        )

    @property
    def distinct_locations(self) -> pa.Array:
        """The locations, each once."""
        return self.locations.dictionary

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """Row of each chunk in `distinct_locations`; any where it has no location."""
        codes: npt.NDArray[np.int32] = self.locations.indices.fill_null(0).to_numpy()
        return codes

    def missing(self) -> npt.NDArray[np.bool_]:
        """Return for each chunk of the grid whether it is neither in a file nor inlined."""
        is_null: npt.NDArray[np.bool_] = self.locations.is_null().to_numpy(zero_copy_only=False)
        is_missing = is_null.reshape(self.grid)
        for index in self.inlined:
            is_missing[index] = False
        return is_missing

    def missing_of(self, index: UInt32, start: tuple[int, ...]) -> UInt32:
        """Return those chunks of an array that are missing here, if this grid begins at `start`."""
        is_missing = self.missing()
        if not is_missing.any():
            return index[:0]
        first = np.array(start, np.int64)
        local = index.astype(np.int64) - first
        within = ((local >= 0) & (local < np.array(self.grid, np.int64))).all(axis=1)
        rows = np.flatnonzero(within)
        found: UInt32 = index[rows[is_missing[tuple(local[rows].T)]]]
        return found


def _encoded(paths: npt.NDArray[Any]) -> pa.DictionaryArray:
    """Return texts by code; most follow one that is equal, and only the first of each run costs."""
    is_first = np.ones(len(paths), np.bool_)
    is_first[1:] = paths[1:] != paths[:-1]
    starts = np.flatnonzero(is_first)
    heads = pa.array(paths[starts].tolist(), pa.large_string())
    heads = pc.if_else(pc.is_in(heads, _NO_LOCATIONS), pa.scalar(None, pa.large_string()), heads)
    encoded = heads.dictionary_encode()
    runs = pa.array(np.repeat(np.arange(len(starts)), np.diff(starts, append=len(paths))))
    return pa.DictionaryArray.from_arrays(encoded.indices.take(runs), encoded.dictionary)


def _with_protocol(locations: pa.DictionaryArray, protocol: str | None) -> pa.DictionaryArray:
    if protocol is None:
        return locations
    renamed = pc.replace_substring_regex(
        locations.dictionary, f"^{SCHEME}://", f"{protocol}://", max_replacements=1
    )
    return pa.DictionaryArray.from_arrays(locations.indices, renamed)
