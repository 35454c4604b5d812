"""Counting references by what they point at, with whole columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.assets.assets import Assets
from icestream.model.chunk_tables import ChunkTable
from icestream.model.container_sets import ContainerSet
from icestream.model.location_forms import absolute_texts
from icestream.model.location_pools import as_texts
from icestream.model.path_weights import LocationWeights, prefixes_of_depth
from icestream.model.text_pools import Int32
from icestream.repository.reference_walks import UsedManifests, VirtualRows, walk_virtual_rows

_SUMS = ("references", "num_bytes", "copies")
_COMPACT_ABOVE = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceCounts:
    """What references point at: a row per stored location and array."""

    table: pa.Table
    """Columns: stored, array, references, num_bytes, copies (manifests that hold the text)."""

    def objects(self, containers: ContainerSet) -> pa.Table:
        """Return a row per distinct object."""
        locations = absolute_texts(self.table["stored"], containers)
        return _grouped(self.table.append_column("location", locations), "location")

    def prefixes(self, containers: ContainerSet, depth: int) -> pa.Table:
        """Return a row per folder of a depth, with the number of distinct objects below it."""
        locations = absolute_texts(self.table["stored"], containers)
        table = self.table.append_column("location", locations)
        prefixes = prefixes_of_depth(locations, depth)
        return _grouped(table.append_column("prefix", prefixes), "prefix")

    def weights(self, containers: ContainerSet) -> LocationWeights:
        """Return a row per stored text, for advice."""
        sums = self.table.group_by("stored").aggregate([(name, "sum") for name in _SUMS])
        stored = as_texts(sums["stored"])
        return LocationWeights(
            absolute_texts(stored, containers),
            stored,
            sums["references_sum"].to_numpy(),
            sums["copies_sum"].to_numpy(),
        )


def count_references(assets: Assets, uses: UsedManifests) -> ReferenceCounts:
    """Count the virtual references that are in use, those of each manifest once."""
    numbers = {node_id: number for number, node_id in enumerate(uses.paths)}
    counted: list[pa.Table] = []
    pending = compact = 0
    for tables in walk_virtual_rows(assets, uses):
        counted.append(_count_manifest(tables, [numbers[rows.node_id] for rows in tables]))
        pending += len(counted[-1])
        if pending > max(compact, _COMPACT_ABOVE):
            counted, pending = [_merged(counted)], 0
            compact = len(counted[0])
    return ReferenceCounts(_merged([_EMPTY, *counted]))


def uses_per_text(codes: Int32, pool_size: int) -> npt.NDArray[np.int64]:
    """Return how many rows have each text of a pool."""
    # one up, so that rows without a text are counted at 0
    return np.bincount(codes + np.int32(1), minlength=pool_size + 1)[1:]


def _count_manifest(tables: Sequence[VirtualRows], numbers: Sequence[int]) -> pa.Table:
    parts = [_count_array(rows, number) for rows, number in zip(tables, numbers, strict=True)]
    counted = pa.concat_tables(parts)
    copies = np.ones(len(counted), np.int64)
    if len(parts) > 1 or tables[0].table.locations.num_chunks > 1:
        encoded = as_texts(counted["stored"]).dictionary_encode().indices.to_numpy()
        copies[:] = 0
        copies[np.unique(encoded, return_index=True)[1]] = 1
    return counted.append_column("copies", pa.array(copies))


def _count_array(rows: VirtualRows, number: int) -> pa.Table:
    pool = rows.table.locations
    codes = rows.codes
    references = uses_per_text(codes, len(pool))
    # sums of floats are exact up to 2**53: nine petabytes of one object in one manifest
    lengths = np.bincount(codes + np.int32(1), rows.lengths.astype(np.float64), len(pool) + 1)[1:]
    used = np.flatnonzero(references)
    return pa.table(
        {
            "stored": pool if len(used) == len(pool) else pool.take(pa.array(used)),
            "array": np.full(len(used), number, np.int32),
            "references": references[used].astype(np.int64),
            "num_bytes": lengths[used].astype(np.int64),
        }
    )


_EMPTY = pa.table(
    {
        "stored": pa.array([], pa.large_string()),
        "array": pa.array([], pa.int32()),
        **{name: pa.array([], pa.int64()) for name in _SUMS},
    }
)


def _merged(tables: Sequence[pa.Table]) -> pa.Table:
    sums = pa.concat_tables(tables).group_by(["stored", "array"])
    merged = sums.aggregate([(name, "sum") for name in _SUMS])
    return merged.rename_columns([name.removesuffix("_sum") for name in merged.column_names])


def _grouped(table: pa.Table, key: str) -> pa.Table:
    """Return the sums by a key, those with most references first."""
    wanted: list[Any] = [("references", "sum"), ("num_bytes", "sum"), ("array", "count_distinct")]
    if key != "location":
        wanted.append(("location", "count_distinct"))
    sums = table.group_by(key).aggregate(wanted)
    names = {
        "references_sum": "references",
        "num_bytes_sum": "num_bytes",
        "array_count_distinct": "arrays",
        "location_count_distinct": "objects",
    }
    renamed = sums.rename_columns([names.get(name, name) for name in sums.column_names])
    return renamed.sort_by([("references", "descending"), (key, "ascending")])


# -- checksums ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChecksumCounts:
    """Virtual references by how a change of their object would be noticed."""

    references: int = 0
    with_etag: int = 0
    with_time: int = 0
    """Of the last modification, and no ETag."""

    @property
    def unchecked(self) -> int:
        """References whose object may change unnoticed."""
        return self.references - self.with_etag - self.with_time

    def __add__(self, other: "ChecksumCounts") -> "ChecksumCounts":
        return ChecksumCounts(
            self.references + other.references,
            self.with_etag + other.with_etag,
            self.with_time + other.with_time,
        )


def count_checksums(assets: Assets, uses: UsedManifests) -> dict[str, ChecksumCounts]:
    """Count the checksums of the virtual references in use, by the path of the array."""
    counts: dict[str, ChecksumCounts] = {}
    for tables in walk_virtual_rows(assets, uses):
        for rows in tables:
            path = uses.paths[rows.node_id]
            counts[path] = counts.get(path, ChecksumCounts()) + _checksums_of(rows)
    return dict(sorted(counts.items()))


def _checksums_of(rows: VirtualRows) -> ChecksumCounts:
    virtual = rows.codes >= 0
    has_etag = virtual & _has_etag(rows.table)[rows.rows]
    has_time = virtual & ~has_etag & _has_time(rows.table)[rows.rows]
    return ChecksumCounts(int(virtual.sum()), int(has_etag.sum()), int(has_time.sum()))


def _has_etag(table: ChunkTable) -> npt.NDArray[np.bool_]:
    if table.etag_code is None:
        return np.zeros(len(table), np.bool_)
    return table.etag_code >= 0


def _has_time(table: ChunkTable) -> npt.NDArray[np.bool_]:
    if table.last_modified is None:
        return np.zeros(len(table), np.bool_)
    return table.last_modified > 0
