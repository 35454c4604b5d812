"""A trie of the path segments of many locations, as a table: every folder with what is below it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64 = npt.NDArray[np.int64]

_LAST_SEGMENT = r"[^/]*/?$"
_ROOT = r"(?:[A-Za-z][A-Za-z0-9+._-]*:///?[^/]+|[^/:]+)/"
"""A bucket, a host or a first folder: nothing above it can be a prefix."""


@dataclass(frozen=True, slots=True, eq=False)
class LocationWeights:
    """Distinct absolute locations, and how much there is of each."""

    locations: pa.Array
    """Of large texts."""
    stored: pa.Array
    """The same locations as they are stored now."""
    references: Int64
    copies: Int64
    """How many manifests hold the text."""

    def __len__(self) -> int:
        return len(self.locations)

    def stored_bytes(self, texts: pa.Array) -> Int64:
        """Return the bytes of all copies of each location, were they stored as these texts."""
        lengths: Int64 = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64) * self.copies


@dataclass(frozen=True, slots=True)
class Folder:
    """A node of the trie."""

    path: str
    """It ends with a slash."""
    copies: int
    references: int


def heaviest_folders(weights: LocationWeights, count: int) -> list[Folder]:
    """Return the folders whose paths take most bytes in what is below them, the heaviest first."""
    folders = _all_folders(weights)
    lengths = pc.binary_length(folders["path"]).to_numpy()
    order = np.argsort(-(lengths * folders["copies"].to_numpy()), kind="stable")[:count]
    chosen = folders.take(pa.array(order))
    return [Folder(**row) for row in chosen.to_pylist()]


def prefixes_of_depth(locations: pa.Array, depth: int) -> pa.Array:
    """Return the folder of each location that is `depth` segments deep, or its own if less deep.

    Depth 1 is the bucket; a location without any folder stays as it is.
    """
    pattern = rf"^(?P<prefix>{_ROOT}(?:[^/]*/){{0,{depth - 1}}})"
    found = pc.struct_field(pc.extract_regex(locations, pattern), "prefix")
    return pc.coalesce(found, locations)


def _all_folders(weights: LocationWeights) -> pa.Table:
    """Return every folder once, with the sums of what is in it and below it."""
    level = pa.table(
        {"path": weights.locations, "copies": weights.copies, "references": weights.references}
    )
    levels: list[pa.Table] = []
    while len(level := _parents(level)):
        levels.append(level)
    return _summed(pa.concat_tables([*levels, level]))


def _parents(level: pa.Table) -> pa.Table:
    """Return the folders above, each once, with the sums of what they hold."""
    inner = level.filter(pc.match_substring_regex(level["path"], f"^{_ROOT}."))
    above = pc.replace_substring_regex(inner["path"], _LAST_SEGMENT, "", max_replacements=1)
    return _summed(inner.set_column(0, "path", above))


def _summed(rows: pa.Table) -> pa.Table:
    sums = rows.group_by("path").aggregate([("copies", "sum"), ("references", "sum")])
    return pa.table(
        {
            "path": sums["path"],
            "copies": sums["copies_sum"],
            "references": sums["references_sum"],
        }
    )
