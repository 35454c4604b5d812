"""How far a repository is from the limits of its format, and when it will reach them.

The limits are those of the readers that exist. icechunk verifies a FlatBuffer before use, and the
verifier stops at a number of tables and of bytes, where a shared text counts at every visit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from icestream.packing.planned_pieces import PackingPlan
from icestream.packing.prediction import Prediction, predict
from icestream.packing.workloads import DAYS_PER_YEAR, Workload

_CHECKPOINT_YEARS = (0, 1, 2, 5, 10, 20, 50)
"""When growth is looked at; in between it is taken to be even."""

_REFERENCE_BYTES = 74
_REFERENCE_BYTES_PER_DIMENSION = 4
_TABLES_PER_ARRAY = 2
_TABLES_PER_DIMENSION = 2
_TABLES_PER_MANIFEST = 2
_SNAPSHOT_BYTES_PER_MANIFEST = 120

_LIMITS: Mapping[str, int] = {
    "references of one manifest that icechunk keeps in memory": 15_000_000,
    "visited bytes of one manifest, icechunk up to 2.1": 2**31,
    "visited bytes of one manifest": 2**32,
    "tables of the snapshot": 50_000_000,
    "visited bytes of the snapshot": 2**31,
    "changed chunks of one commit": 50_000_000,
    "snapshots of the history, icechunk up to 2.1": 1_000_000,
    "snapshots of the history": 50_000_000,
    "chunks along one dimension": 2**32 - 1,
}


@dataclass(frozen=True, slots=True)
class FormatLimit:
    """A number that the format or its readers bound."""

    name: str
    value: int
    """Today's."""
    limit: int
    reached_on: date | None
    """None if not within fifty years."""

    def is_near(self, today: date, years: float) -> bool:
        """Tell whether the limit is reached within some years."""
        horizon = today + timedelta(days=years * DAYS_PER_YEAR)
        return self.reached_on is not None and self.reached_on <= horizon


def format_limits(workload: Workload, plan: PackingPlan, today: date) -> list[FormatLimit]:
    """Return every limit with today's value and the day on which it is reached."""
    days = [years * DAYS_PER_YEAR for years in _CHECKPOINT_YEARS]
    measured = [_measures(workload.after(day), plan) for day in days]
    return [
        FormatLimit(name, measured[0][name], limit, _reached_on(days, values, limit, today))
        for name, limit in _LIMITS.items()
        for values in [[measures[name] for measures in measured]]
    ]


def _measures(workload: Workload, plan: PackingPlan) -> dict[str, int]:
    prediction = predict(workload, plan)
    rank = max((len(array.grid) for array in workload.arrays), default=0)
    per_reference = (
        _REFERENCE_BYTES + _REFERENCE_BYTES_PER_DIMENSION * rank + workload.location_length
    )
    visited = prediction.largest_manifest * per_reference
    values = (
        prediction.largest_manifest,
        visited,
        visited,
        _snapshot_tables(workload, prediction),
        _snapshot_bytes(workload, prediction),
        round(workload.references_per_append),
        workload.commits,
        workload.commits,
        max((n for array in workload.arrays for n in array.grid), default=0),
    )
    return dict(zip(_LIMITS, values, strict=True))


def _snapshot_tables(workload: Workload, prediction: Prediction) -> int:
    dimensions = sum(len(array.grid) for array in workload.arrays)
    return (
        _TABLES_PER_ARRAY * len(workload.arrays)
        + _TABLES_PER_DIMENSION * dimensions
        + _TABLES_PER_MANIFEST * prediction.total.manifests
    )


def _snapshot_bytes(workload: Workload, prediction: Prediction) -> int:
    metadata = sum(array.metadata_bytes for array in workload.arrays)
    return metadata + _SNAPSHOT_BYTES_PER_MANIFEST * prediction.total.manifests


def _reached_on(days: list[int], values: list[int], limit: int, today: date) -> date | None:
    """Return the day on which a value that was looked at on some days reaches the limit."""
    if values[0] >= limit:
        return today
    for day in _crossings(days, values, limit):
        return today + timedelta(days=day)
    return None


def _crossings(days: list[int], values: list[int], limit: int) -> Iterator[float]:
    steps = zip(
        zip(days, values, strict=True), zip(days[1:], values[1:], strict=True), strict=False
    )
    for (day, value), (next_day, next_value) in steps:
        if value < limit <= next_value:
            yield day + (next_day - day) * (limit - value) / (next_value - value)
