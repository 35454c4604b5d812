"""Counting references by what they point at, with whole columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.assets.assets import Assets
from icestream.model.chunk_tables import ChunkTable
from icestream.model.container_sets import ContainerSet
from icestream.model.distinct_texts import text_numbers
from icestream.model.location_forms import absolute_texts
from icestream.model.location_pools import as_texts
from icestream.model.path_weights import Int64, LocationWeights, prefixes_of_depth
from icestream.model.text_pools import Int32
from icestream.repository.reference_walks import UsedManifests, VirtualRows, walk_virtual_rows

_COMPACT_ABOVE = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceCounts:
    """What references point at: a row per stored location and array."""

    stored: pa.Array
    """Texts of locations, as they are stored."""
    array: Int64
    """The number of the array."""
    references: Int64
    num_bytes: Int64
    copies: Int64
    """How many manifests hold the text; counted for one of the arrays of a manifest."""

    def __len__(self) -> int:
        return len(self.stored)

    def objects(self, containers: ContainerSet) -> pa.Table:
        """Return a row per distinct object."""
        numbers, locations = text_numbers(absolute_texts(self.stored, containers))
        return _most_used_first({"location": locations, **self._sums(numbers)})

    def prefixes(self, containers: ContainerSet, depth: int) -> pa.Table:
        """Return a row per folder of a depth, with the number of distinct objects below it."""
        locations = absolute_texts(self.stored, containers)
        numbers, prefixes = text_numbers(prefixes_of_depth(locations, depth))
        objects = _count_distinct(numbers, text_numbers(locations)[0])
        return _most_used_first({"prefix": prefixes, **self._sums(numbers), "objects": objects})

    def weights(self, containers: ContainerSet) -> LocationWeights:
        """Return a row per stored text, for advice."""
        numbers, stored = text_numbers(self.stored)
        return LocationWeights(
            absolute_texts(stored, containers),
            stored,
            _sum_by(numbers, self.references),
            _sum_by(numbers, self.copies),
        )

    def _sums(self, numbers: Int64) -> dict[str, Int64]:
        return {
            "references": _sum_by(numbers, self.references),
            "num_bytes": _sum_by(numbers, self.num_bytes),
            "arrays": _count_distinct(numbers, self.array),
        }


def count_references(assets: Assets, uses: UsedManifests) -> ReferenceCounts:
    """Count the virtual references that are in use, those of each manifest once."""
    arrays = {node_id: number for number, node_id in enumerate(uses.paths)}
    counted = [_NOTHING]
    pending = merged = 0
    for tables in walk_virtual_rows(assets, uses):
        counted.append(_count_manifest(tables, [arrays[rows.node_id] for rows in tables]))
        pending += len(counted[-1])
        # merging now and then, not each time, keeps the work in proportion to what is counted
        if pending > max(merged, _COMPACT_ABOVE):
            counted, pending = [_merged(counted)], 0
            merged = len(counted[0])
    return _merged(counted)


def uses_per_text(codes: Int32, pool_size: int) -> Int64:
    """Return how many rows have each text of a pool."""
    # one up, so that rows without a text are counted at 0
    return np.bincount(codes + np.int32(1), minlength=pool_size + 1)[1:]


def _count_manifest(tables: Sequence[VirtualRows], arrays: Sequence[int]) -> ReferenceCounts:
    counts = _stacked([_count_array(rows, n) for rows, n in zip(tables, arrays, strict=True)])
    numbers, texts = text_numbers(counts.stored)
    if len(texts) < len(counts):
        copies = np.zeros(len(counts), np.int64)
        copies[np.unique(numbers, return_index=True)[1]] = 1
        counts = replace(counts, copies=copies)
    return counts


def _count_array(rows: VirtualRows, array: int) -> ReferenceCounts:
    pool = as_texts(rows.table.locations)
    codes = rows.codes
    references = uses_per_text(codes, len(pool))
    # sums of floats are exact up to 2**53: nine petabytes of one object in one manifest
    lengths = np.bincount(codes + np.int32(1), rows.lengths.astype(np.float64), len(pool) + 1)[1:]
    used = np.flatnonzero(references)
    return ReferenceCounts(
        stored=pool if len(used) == len(pool) else pool.take(pa.array(used)),
        array=np.full(len(used), array, np.int64),
        references=references[used].astype(np.int64),
        num_bytes=lengths[used].astype(np.int64),
        copies=np.ones(len(used), np.int64),
    )


def _merged(counts: Sequence[ReferenceCounts]) -> ReferenceCounts:
    """Return the sums by stored location and array."""
    stacked = _stacked(counts)
    numbers, texts = text_numbers(stacked.stored)
    if len(texts) == len(stacked):
        return stacked
    pairs = numbers * (int(stacked.array.max(initial=0)) + 1) + stacked.array
    _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    return ReferenceCounts(
        stacked.stored.take(pa.array(first)),
        stacked.array[first],
        _sum_by(group, stacked.references),
        _sum_by(group, stacked.num_bytes),
        _sum_by(group, stacked.copies),
    )


def _stacked(counts: Sequence[ReferenceCounts]) -> ReferenceCounts:
    present = [part for part in counts if len(part)] or [_NOTHING]
    if len(present) == 1:
        return present[0]
    return ReferenceCounts(
        pa.concat_arrays([part.stored for part in present]),
        *(
            np.concatenate([getattr(part, name) for part in present])
            for name in ("array", "references", "num_bytes", "copies")
        ),
    )


_NOTHING = ReferenceCounts(
    pa.array([], pa.large_string()), *(np.empty(0, np.int64) for _ in range(4))
)


def _sum_by(numbers: Int64, values: Int64) -> Int64:
    """Return the sum of the values of each number; all numbers from 0 on occur."""
    sums = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    np.add.at(sums, numbers, values)
    return sums


def _count_distinct(numbers: Int64, values: Int64) -> Int64:
    """Return how many distinct values each number has."""
    width = int(values.max(initial=0)) + 1
    return np.bincount(np.unique(numbers * width + values) // width)


def _most_used_first(columns: dict[str, Any]) -> pa.Table:
    order = np.argsort(-columns["references"], kind="stable")
    table = pa.table(columns)
    return table if bool((order[1:] > order[:-1]).all()) else table.take(pa.array(order))


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
