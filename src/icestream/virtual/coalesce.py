"""Which requests to send for many ranges of one object: neighbours are fetched together. Pure."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class FetchPlan:
    """A few fetches that together hold every range, each range wholly in one of them."""

    starts: Int64
    """First byte of each fetch, ascending."""
    ends: Int64
    """Byte behind the last one of each fetch."""
    fetch_of: Positions
    """For each range, in the order given, the fetch that holds it."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, fetch: int) -> tuple[int, int]:
        return int(self.starts[fetch]), int(self.ends[fetch])


def plan_ranges(
    offsets: npt.NDArray[np.integer],
    lengths: npt.NDArray[np.integer],
    *,
    max_gap: int,
    max_size: int,
) -> FetchPlan:
    """Merge ranges that are at most `max_gap` bytes apart, up to `max_size` bytes per fetch.

    A single range larger than that is fetched as it is. Ranges that do not overlap never make
    fetches that do; overlapping ones may, so that the size stays bounded whatever a manifest says.
    """
    starts = np.asarray(offsets, np.int64)
    if not len(starts):
        return FetchPlan(starts, starts, np.empty(0, np.intp))
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = starts + np.asarray(lengths, np.int64)[order]
    firsts = _first_ranges(starts, ends, max_gap, max_size)
    fetch_of = np.empty(len(starts), np.intp)
    begins = np.zeros(len(starts), np.intp)
    begins[firsts[1:]] = 1
    fetch_of[order] = np.cumsum(begins)
    return FetchPlan(starts[firsts], np.maximum.reduceat(ends, firsts), fetch_of)


def _first_ranges(starts: Int64, ends: Int64, max_gap: int, max_size: int) -> Positions:
    """Return which of the sorted ranges begin a fetch."""
    reach = np.maximum.accumulate(ends)
    apart = starts[1:] - reach[:-1] > max_gap
    runs = np.concatenate([[0], np.flatnonzero(apart) + 1]).astype(np.intp)
    run_ends = np.append(runs[1:], len(starts))
    too_big = reach[run_ends - 1] - starts[runs] > max_size
    if not too_big.any():
        return runs
    cuts = [
        cut
        for first, end in zip(runs[too_big].tolist(), run_ends[too_big].tolist(), strict=True)
        for cut in _cuts(starts, reach, slice(first, end), max_size)
    ]
    return np.union1d(runs, np.array(cuts, np.intp))


def _cuts(starts: Int64, reach: Int64, run: slice, max_size: int) -> list[int]:
    """Return where to cut a run of neighbours so that each piece fits; one step per piece."""
    cuts: list[int] = []
    first = int(run.start)
    while first < run.stop:
        fitting = np.searchsorted(reach[first : run.stop], starts[first] + max_size, side="right")
        first += max(int(fitting), 1)
        if first < run.stop:
            cuts.append(first)
    return cuts
