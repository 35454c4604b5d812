"""The values of one message as an array of two dimensions, or of one where it has no rows."""

from typing import Any

import eccodes
import numpy as np
import numpy.typing as npt

from icestream.parsers.grib.messages import key_of, opened_message, single_field

_MISSING = 3.0e38
"""Stands for points without value while ecCodes has them."""
_WITHOUT_ROWS = frozenset({"sh", "unstructured_grid", "healpix"})
_NO_NUMBER = 2**31 - 1


def grid_shape(handle: int) -> tuple[int, ...]:
    """Return the rows and columns of a message, or the number of its values."""
    grid = key_of(handle, "gridType", "")
    size = int(key_of(handle, "numberOfDataPoints", 0))
    if grid in _WITHOUT_ROWS or grid.startswith("reduced"):
        return (int(key_of(handle, "numberOfValues", size)) if grid == "sh" else size,)
    columns, rows = key_of(handle, "Nx", _NO_NUMBER), key_of(handle, "Ny", _NO_NUMBER)
    return (rows, columns) if rows * columns == size else (size,)


def as_grid(handle: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values, which are in the order of scanning, by rows and columns."""
    shape = grid_shape(handle)
    if len(shape) == 1:
        return values
    rows, columns = shape
    if key_of(handle, "jPointsAreConsecutive", 0):
        return values.reshape(columns, rows).T
    grid = values.reshape(rows, columns)
    if key_of(handle, "alternativeRowScanning", 0):
        grid = grid.copy()
        grid[1::2] = grid[1::2, ::-1]
    return grid


def decode_message(data: bytes, field: int | None = None) -> npt.NDArray[np.float64]:
    """Return the values of a message, or of one of its fields; NaN where it has none.

    Raises:
        CodesInternalError: It cannot be decoded.
    """
    single = data if field is None else single_field(data, field)
    with opened_message(single) as handle:
        has_gaps = bool(key_of(handle, "bitmapPresent", 0))
        if has_gaps:
            eccodes.codes_set(handle, "missingValue", _MISSING)
        values: npt.NDArray[np.float64] = eccodes.codes_get_values(handle)
        if has_gaps:
            values = np.where(values == _MISSING, np.nan, values)
        return as_grid(handle, values)


def grid_places(data: bytes) -> dict[str, npt.NDArray[np.float64]]:
    """Return latitudes and longitudes of a message: of rows and columns, or else of all points.

    Spectral coefficients are at no place, and have none.
    """
    try:
        with opened_message(data) as handle:
            latitude = as_grid(handle, eccodes.codes_get_array(handle, "latitudes"))
            longitude = as_grid(handle, eccodes.codes_get_array(handle, "longitudes"))
    except eccodes.CodesInternalError:
        return {}
    has_rows = latitude.ndim > 1 and bool((latitude[:, :1] == latitude).all())
    if has_rows and bool((longitude[:1] == longitude).all()):
        return {"latitude": latitude[:, 0], "longitude": longitude[0]}
    return {"latitude": latitude, "longitude": longitude}
