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


def reduction_named(name: str) -> Reduce:
    """Return what a declaration means by a function.

    Raises:
        NotFoundError: It names one of a module that is not there.
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
        InvalidInputError: The function returned something of another shape.
    """
    expected = block.shape[:axis] + block.shape[axis + 1 :]
    found = np.asarray(reduction_named(name)(block, axis))
    if found.shape != expected:
        raise InvalidInputError(
            f"{name} made {found.shape} of {block.shape} along dimension {axis}, not {expected}",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    return found


def _count(block: Values, axis: int) -> Values:
    if block.dtype.kind != "f":
        return np.full(np.delete(block.shape, axis), block.shape[axis], np.int64)
    return np.asarray(np.count_nonzero(~np.isnan(block), axis=axis))


def _sum(block: Values, axis: int) -> Values:
    if block.dtype.kind != "f":
        return np.asarray(block.sum(axis=axis))
    total = np.nansum(block, axis=axis, dtype=np.float64)
    return np.where(_count(block, axis) > 0, total, np.nan)


def _mean(block: Values, axis: int) -> Values:
    count = _count(block, axis)
    return np.asarray(_sum(block, axis) / np.maximum(count, 1))


def _min(block: Values, axis: int) -> Values:
    return np.asarray(np.fmin.reduce(block, axis=axis))


def _max(block: Values, axis: int) -> Values:
    return np.asarray(np.fmax.reduce(block, axis=axis))


_KNOWN: dict[str, Reduce] = {
    Reduction.MEAN: _mean,
    Reduction.MIN: _min,
    Reduction.MAX: _max,
    Reduction.SUM: _sum,
    Reduction.COUNT: _count,
}
