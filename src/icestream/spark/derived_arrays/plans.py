"""Which chunks of a derived array have to be computed: a pure function of what changed."""

import numpy as np
import numpy.typing as npt

from icestream.ingest.array_derivation.states import GroupedAxis
from icestream.model.chunk_tables import UInt32, dense_index


def chunks_of_groups(
    groups: npt.NDArray[np.bool_], num_chunks: tuple[int, ...], *, axis: int, chunk_length: int
) -> UInt32:
    """Return the output chunks that hold any of some groups.

    Args:
        groups: Which ones.
        num_chunks: Of the output, per dimension.
        axis: The dimension that is grouped.
        chunk_length: Of the output along it.
    """
    wanted = np.unique(np.flatnonzero(groups) // chunk_length)
    index = dense_index(num_chunks)
    return index[np.isin(index[:, axis], wanted)]


def chunks_of_inputs(
    changed: UInt32, grouped: GroupedAxis, *, axis: int, input_length: int, chunk_length: int
) -> UInt32:
    """Return the output chunks that are made from any of some input chunks.

    Along other dimensions the chunks of both are the same.

    Args:
        changed: The input chunks; those behind the end of the dimension do not count.
        grouped: The groups of the dimension.
        axis: The dimension.
        input_length: Of the input's chunks along it.
        chunk_length: Of the output's.
    """
    stop = int(grouped.starts[-1])
    first = changed[:, axis].astype(np.int64) * input_length
    inside = first < stop
    changed, first = changed[inside], first[inside]
    last = np.minimum(first + input_length, stop) - 1
    low = grouped.groups_of(first) // chunk_length
    counts = grouped.groups_of(last) // chunk_length - low + 1
    index = np.repeat(changed, counts, axis=0)
    # 0, 1, .. counted anew for each of the changed chunks
    steps = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    index[:, axis] = np.repeat(low, counts) + steps
    return distinct(index)


def distinct(index: UInt32) -> UInt32:
    """Return each chunk once, in their order."""
    return np.unique(index, axis=0) if len(index) and index.shape[1] else index[:1]
