"""Positions along a dimension, in groups: by the time that they are at, or so many at a time."""

import numpy as np
import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.array_derivation.declarations import ArrayDerivation, Period
from icestream.ingest.array_derivation.states import GroupedAxis, Numbers

_UNITS = {Period.YEAR: "Y", Period.MONTH: "M", Period.DAY: "D", Period.HOUR: "h"}


def group_axis(
    derivation: ArrayDerivation, length: int, coordinate: pa.Array | None
) -> GroupedAxis:
    """Return the groups of a dimension.

    Args:
        derivation: Says how they are made.
        length: Of the dimension.
        coordinate: Its decoded coordinate; None if it has none.

    Raises:
        InvalidInputError: The coordinate does not tell times, or not in their order.
    """
    if derivation.group is None:
        starts = np.arange(0, length, derivation.steps or 1, dtype=np.int64)
        return GroupedAxis(starts, np.append(starts, np.int64(length)))
    labels = _begins(_micros(derivation, coordinate), derivation.group)
    if (np.diff(labels) < 0).any():
        raise _refused(
            f"the times along {derivation.along!r} are not in ascending order, so a "
            f"{derivation.group.value} is not one piece; sort the array, or group by steps"
        )
    starts = np.flatnonzero(np.diff(labels, prepend=labels[:1] - 1)).astype(np.int64)
    return GroupedAxis(labels[starts], np.append(starts, np.int64(length)))


def _micros(derivation: ArrayDerivation, coordinate: pa.Array | None) -> Numbers:
    along = derivation.along
    if coordinate is None:
        raise _refused(
            f"the dimension {along!r} has no coordinate that tells times; group it by steps"
        )
    if not pa.types.is_timestamp(coordinate.type):
        raise _refused(
            f"the dimension {along!r} has a coordinate of type {coordinate.type}, which does not "
            "tell times of the standard calendar; group it by steps"
        )
    if coordinate.null_count:
        raise _refused(f"the coordinate {along!r} has missing times; mend it, or group by steps")
    micros: Numbers = coordinate.cast(pa.timestamp("us", "UTC")).view(pa.int64()).to_numpy()
    return micros


def _begins(micros: Numbers, period: Period) -> Numbers:
    """Return when the period of each moment begins."""
    begins = micros.view("M8[us]").astype(f"M8[{_UNITS[period]}]").astype("M8[us]")
    return begins.view(np.int64)


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
