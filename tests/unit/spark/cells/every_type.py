"""Small arrays of every type that has a column, on one grid."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.errors import UnstableSpecificationWarning

type Stored = tuple[np.ndarray[Any, Any], Mapping[str, Any]]
"""Values as they are stored, and attributes."""

_HOURS = {"units": "hours since 1999-12-31 12:00"}
_PACKED = {"scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}

EVERY_TYPE: Mapping[str, Stored] = {
    "text": (np.array(["a", "", "üñ", "long " * 9], np.dtypes.StringDType()), {}),
    "text_fill": (np.array(["a", "", "-", "b"], np.dtypes.StringDType()), {"_FillValue": "-"}),
    "text_fixed": (np.array(["a", "", "üñ", "abc"], "<U3"), {}),
    "text_fixed_big": (np.array(["a", "?", "üñ", "abc"], ">U3"), {"missing_value": "?"}),
    "bytes_fixed": (np.array([b"a", b"", b"\xff\x00c", b"abc"], "S3"), {}),
    "flag": (np.array([True, False, False, True]), {}),
    "i1": (np.array([-128, 0, 1, 127], "i1"), {}),
    "i8": (np.array([-(2**63), 2**53 + 1, 0, 2**63 - 1], "i8"), {"_FillValue": 0}),
    "u1": (np.array([0, 1, 254, 255], "u1"), {"_FillValue": 255}),
    "u2": (np.array([0, 1, 2, 2**16 - 1], "u2"), {}),
    "u4": (np.array([0, 1, 2, 2**32 - 1], "u4"), {"missing_value": [1]}),
    "u8": (np.array([0, 2**53 + 1, 2**63, 2**64 - 1], "u8"), {}),
    "u8_fill": (np.array([0, 1, 2**63 + 1, 2**64 - 1], "u8"), {"_FillValue": 2**64 - 1}),
    "i1_unsigned": (np.array([0, 1, -1, -2], "i1"), {"_Unsigned": "true", "_FillValue": -1}),
    "i8_unsigned": (np.array([0, 1, -1, -2], "i8"), {"_Unsigned": "true"}),
    "f2": (np.array([0.5, -65504, np.inf, np.nan], "f2"), {}),
    "f2_fill": (np.array([0.5, -999, np.inf, np.nan], "f2"), {"_FillValue": -999.0}),
    "f4": (np.array([0.1, -0.0, np.inf, np.nan], "f4"), {"_FillValue": "AAAAAAAA+H8="}),
    "f8": (np.array([0.1, 1e300, -np.inf, np.nan], "f8"), {"missing_value": 1e300}),
    "i2_big": (np.array([1, 256, -2, 3], ">i2"), {"_FillValue": 256}),
    "f4_big": (np.array([0.1, 2, 3, np.nan], ">f4"), {}),
    "u8_big": (np.array([0, 1, 2**63, 2**64 - 1], ">u8"), {}),
    "moment": (np.array(["1969-12-31T23:59:59", "NaT", "2020-01-01", "1582-10-04"], "M8[s]"), {}),
    "moment_big": (np.array(["1969-12-31", "NaT", "2020-01-01", "0"], ">M8[ms]"), {}),
    "span": (np.array([1, -2, 3, "NaT"], "m8[s]"), {}),
    "hours": (np.array([0, -1, 5, 2**31 - 1], "i4"), _HOURS | {"_FillValue": -1}),
    "hours_f4": (np.array([0, 0.25, -5, np.nan], "f4"), _HOURS),
    "hours_f8_fill": (np.array([0, 1 / 3, -999, 1e5], "f8"), _HOURS | {"_FillValue": -999.0}),
    "half_hours": (np.array([0, 1, -3, -9], "i2"), _HOURS | {"scale_factor": 0.5}),
    "leap": (np.array([58, 59, 60, 0], "i4"), _HOURS | {"calendar": "noleap"}),
    "packed": (np.array([-32767, 0, 1999, -32768], "i2"), _PACKED),
    "packed_big": (np.array([-32767, 0, 1999, -32768], ">i2"), _PACKED),
    "packed_u1": (np.array([0, 1, 254, 255], "u1"), {"scale_factor": 0.1, "_FillValue": 255}),
    "packed_f4": (np.array([1, 2.5, -9, np.inf], "f4"), {"scale_factor": 0.1, "_FillValue": -9}),
}


def create_every_type(store: Store, names: list[str] | None = None, *, filled: bool) -> None:
    """Create arrays along a dimension x, with their values or with other ones."""
    root = zarr.open_group(store, mode="a")
    for name in names or EVERY_TYPE:
        values, attributes = EVERY_TYPE[name]
        with warnings.catch_warnings():
            # fixed-length bytes are an extension of the format
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            array = root.create_array(
                name,
                shape=values.shape,
                dtype=values.dtype,
                chunks=(3,),
                dimension_names=["x"],
                attributes=dict(attributes),
            )
        array[:] = values if filled else np.roll(values, 1)
