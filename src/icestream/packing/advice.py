"""Which sets and splits fit a workload: neither commits nor cold reads grow with the repository."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from icestream.model.manifest_conditions import ManifestSplitCondition, ManifestSplitDimCondition
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.model.manifest_sets import (
    DEFAULT_SET,
    ChunkManifests,
    ChunkRange,
    ManifestRule,
    ManifestSet,
)
from icestream.packing.format_limits import FormatLimit, format_limits
from icestream.packing.planned_pieces import PackingPlan
from icestream.packing.prediction import SMALL_ARRAY_CHUNKS, Prediction, predict
from icestream.packing.splits import WHOLE, CellSizes, automatic_split_sizes
from icestream.packing.workloads import DAYS_PER_YEAR, ArrayFacts, Workload

COORDINATES = "coordinates"

_COORDINATE_REFERENCES = 50_000
"""Per manifest of small arrays: about a megabyte, which takes no longer than its latency."""

_SNAPSHOT_BYTES_PER_MANIFEST = 42
_SIZES = (100_000, 1_000_000)
"""Smallest and largest size that is proposed: below, latency rules; above, decoding is felt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """What a proposal keeps to."""

    years: float = 1.0
    """How far ahead to look."""
    max_commit_references: int = 1_000_000
    """References that an append may write anew: about half a second."""
    max_manifest_size: int | None = None
    """References per manifest; None chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestAdvice:
    """What a workload costs today and later, and a plan under which it costs less."""

    goals: Goals
    now: Prediction
    later: Prediction
    """Under the plan in force, at the end of the years that the goals look ahead."""
    proposal: PackingPlan
    proposed: Prediction
    """As `later`, under the proposal."""
    limits: tuple[FormatLimit, ...]
    """Of the format, under the plan in force."""
    proposed_limits: tuple[FormatLimit, ...]
    """Of the format, under the proposal."""


def advise(workload: Workload, plan: PackingPlan, goals: Goals, today: date) -> ManifestAdvice:
    """Predict what a workload costs under a plan, and propose a better one."""
    later = workload.after(goals.years * DAYS_PER_YEAR)
    proposal = propose(later, goals)
    return ManifestAdvice(
        goals=goals,
        now=predict(workload, plan),
        later=predict(later, plan),
        proposal=proposal,
        proposed=predict(later, proposal),
        limits=tuple(format_limits(workload, plan, today)),
        proposed_limits=tuple(format_limits(workload, proposal, today)),
    )


def propose(workload: Workload, goals: Goals) -> PackingPlan:
    """Return sets and splits for a workload, taken as it will be when it has grown.

    Small arrays share few manifests. Of others, a manifest holds so many references that the
    list of manifests in the snapshot and one manifest take about equally long to read. Arrays
    with more are split where they grow, and the more of them grow the shorter, so that what an
    append writes anew stays bounded.
    """
    size = goals.max_manifest_size or _manifest_size(workload)
    small = [array for array in workload.arrays if array.metadata_chunks < SMALL_ARRAY_CHUNKS]
    sets = [ManifestSet(DEFAULT_SET, max_manifest_size=size, split_oversized=True)]
    rules: list[ManifestRule] = []
    if small:
        needed = sum(array.references for array in small) / _COORDINATE_REFERENCES
        # a quarter more, since bins are not full
        cardinality = max(1, math.ceil(1.25 * needed)) if needed > 1 else 1
        sets.insert(0, ManifestSet(COORDINATES, _COORDINATE_REFERENCES, None, cardinality))
        rules.append(ManifestRule(COORDINATES, metadata_chunks=ChunkRange(0, SMALL_ARRAY_CHUNKS)))
    large = [array for array in workload.arrays if array.metadata_chunks >= SMALL_ARRAY_CHUNKS]
    return PackingPlan(ChunkManifests(tuple(sets), tuple(rules)), _splitting(large, size, goals))


def _manifest_size(workload: Workload) -> int:
    """Return the size for which the snapshot's list of manifests and a manifest weigh the same."""
    per_reference = max(workload.bytes_per_reference, 1.0)
    even = math.sqrt(workload.references * _SNAPSHOT_BYTES_PER_MANIFEST / per_reference)
    smallest, largest = _SIZES
    return int(min(max(_rounded(even), smallest), largest))


def _rounded(number: float) -> int:
    """Return the number with one significant digit."""
    if number < 1:
        return 1
    unit = 10 ** math.floor(math.log10(number))
    return int(round(number / unit) * unit)


def _splitting(
    arrays: Sequence[ArrayFacts], size: int, goals: Goals
) -> ManifestSplittingConfig | None:
    growing = sum(array.is_growing for array in arrays)
    share = min(size, goals.max_commit_references // max(growing, 1))
    groups: dict[tuple[tuple[int, int], ...], list[str]] = defaultdict(list)
    for array in arrays:
        limit = share if array.is_growing else size
        if array.references > limit:
            groups[_split_axes(array, limit)].append(array.path)
    rules = [
        (
            ManifestSplitCondition.path_matches(_regex(paths)),
            tuple((ManifestSplitDimCondition.Axis(axis), count) for axis, count in axes),
        )
        for axes, paths in groups.items()
    ]
    return ManifestSplittingConfig(tuple(rules)) if rules else None


def _split_axes(array: ArrayFacts, limit: int) -> tuple[tuple[int, int], ...]:
    """Return the axes to split and how many chunks a cell has along them.

    The axis that grows is cut first; others only if one step along it is too large.
    """
    chunks = max(1, round(limit / array.density)) if array.density else limit
    if array.is_growing and array.cross_section <= chunks:
        return ((array.append_axis, _readable(chunks // max(array.cross_section, 1))),)
    sizes: CellSizes = automatic_split_sizes(array.grid, chunks)
    return tuple(
        (axis, min(size, WHOLE))
        for axis, (size, n) in enumerate(zip(sizes, array.grid, strict=True))
        if size < n
    )


def _readable(number: int) -> int:
    """Return the number, or if it is long one with two significant digits that is not larger."""
    if number < 100:  # noqa: PLR2004  two digits
        return max(number, 1)
    unit = int(10 ** (math.floor(math.log10(number)) - 1))
    return number // unit * unit


def _regex(paths: Sequence[str]) -> str:
    return f"^({'|'.join(re.escape(path) for path in sorted(paths))})$"
