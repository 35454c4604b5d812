"""Groups of values made into one: by a known reduction, or by a function of somebody's own."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from icestream.errors import ErrorKind, InvalidInputError, NotFoundError
from icestream.ingest.array_derivation.declarations import Reduction
from icestream.spark.cells.decoding import Values

type Reduce = Callable[[Values, int], Values]
"""Takes a block and an axis, and returns the block without that axis; NaN is a missing value."""

_HALF_A_WRAP = 2.0**63


def reduction_named(name: str) -> Reduce:
    """Return what a declaration means by a function.

    Raises:
        NotFoundError: It names one of a module that is not there.
        InvalidInputError: It names something else than a function.
    """
    if name in _KNOWN:
        return _KNOWN[name]
    module, _, attribute = name.partition(":")
    try:
        found: Reduce = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise NotFoundError(
            f"there is no function {name}: {error}; install its module where tasks run"
        ) from error
    if not callable(found):
        raise _refused(f"{name} is no function, but a {type(found).__name__}; declare another")
    return found


def result_type(name: str, values: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the results of a function over values of a type."""
    if name == Reduction.COUNT:
        return np.dtype(np.int64)
    if name in {Reduction.MIN, Reduction.MAX, Reduction.SUM}:
        return values
    return values if values.kind == "f" and name in _KNOWN else np.dtype(np.float64)


def reduced(name: str, block: Values, axis: int) -> Values:
    """Return a block without one of its dimensions.

    Raises:
        NotFoundError: There is no such function.
        InvalidInputError: The function failed, or returned something else.
    """
    expected = block.shape[:axis] + block.shape[axis + 1 :]
    function = reduction_named(name)
    found = function(block, axis) if name in _KNOWN else _called(name, function, block, axis)
    if found.shape != expected:
        raise _refused(
            f"{name} made {found.shape} of {block.shape} along dimension {axis}, not {expected}"
        )
    return found


def _called(name: str, function: Reduce, block: Values, axis: int) -> Values:
    try:
        found = np.asarray(function(block, axis))
    except Exception as error:  # whatever functions of other people raise
        raise _refused(
            f"{name} failed on {block.shape} values along dimension {axis}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if found.dtype.kind not in "biuf":
        raise _refused(f"{name} made values of the type {found.dtype}, which are no numbers")
    return found


def _count(block: Values, axis: int) -> Values:
    if block.dtype.kind != "f":
        return np.full(np.delete(block.shape, axis), block.shape[axis], np.int64)
    return np.asarray(np.count_nonzero(~np.isnan(block), axis=axis))


def _sum(block: Values, axis: int) -> Values:
    if block.dtype.kind != "f":
        return _whole_sum(block, axis)
    total = np.nansum(block, axis=axis, dtype=np.float64)
    return np.where(_count(block, axis) > 0, total, np.nan)


def _whole_sum(block: Values, axis: int) -> Values:
    """Return the sum of whole numbers, which NumPy would let begin anew beyond 64 bits."""
    total = np.asarray(block.sum(axis=axis))
    about = block.sum(axis=axis, dtype=np.float64)
    if (np.abs(about - total.astype(np.float64)) > _HALF_A_WRAP).any():
        raise _refused(f"a sum does not fit into values of the type {total.dtype}; take the mean")
    return total


def _mean(block: Values, axis: int) -> Values:
    if block.dtype.kind != "f":
        return np.asarray(block.mean(axis=axis, dtype=np.float64))
    return np.asarray(_sum(block, axis) / np.maximum(_count(block, axis), 1))


def _min(block: Values, axis: int) -> Values:
    return np.asarray(np.fmin.reduce(block, axis=axis))


def _max(block: Values, axis: int) -> Values:
    return np.asarray(np.fmax.reduce(block, axis=axis))


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)


_KNOWN: dict[str, Reduce] = {
    Reduction.MEAN: _mean,
    Reduction.MIN: _min,
    Reduction.MAX: _max,
    Reduction.SUM: _sum,
    Reduction.COUNT: _count,
}
