"""Where the pixels of a GeoTIFF are."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

_IS_POINT = 2
_TIEPOINT_SIZE = 6


def plain_tags(tags: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the tags of a GeoTIFF as JSON holds them."""
    return {name: _plain(value) for name, value in (tags or {}).items()}


def pixel_centres(
    tags: Mapping[str, Any] | None, height: int, width: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Return y of the rows and x of the columns; None where rows and columns have none."""
    tags = tags or {}
    scale, tiepoint = tags.get("ModelPixelScale"), tags.get("ModelTiepoint")
    transform = tags.get("ModelTransformation")
    if scale is not None and tiepoint is not None and np.size(tiepoint) == _TIEPOINT_SIZE:
        column, row, _, x, y, _ = (float(value) for value in np.ravel(tiepoint))
        step_x, step_y = float(scale[0]), -float(scale[1])
    elif transform is not None:
        (step_x, skew_x, _, x), (skew_y, step_y, _, y) = np.asarray(transform, float)[:2]
        column = row = 0.0
        if skew_x or skew_y:
            return None
    else:
        return None
    half = 0.0 if int(tags.get("GTRasterTypeGeoKey", 1)) == _IS_POINT else 0.5
    rows = float(y) + (np.arange(height) + half - row) * float(step_y)
    columns = float(x) + (np.arange(width) + half - column) * float(step_x)
    return rows, columns


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return _plain(value.value)
        case np.ndarray():
            return value.tolist()
        case np.generic():
            return value.item()
        case tuple() | list():
            return [_plain(item) for item in value]
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)
