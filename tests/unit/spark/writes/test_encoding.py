"""Values in the form that arrays store, which decodes to them again."""

from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from icestream.errors import InvalidInputError
from icestream.spark.cells.decoding import decoding_of
from icestream.spark.writes.encoding import encode_values

MOMENT = pa.timestamp("us", "UTC")


def stored(values: pa.Array, dtype: str, **attributes: Any) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    return encode_values("v", values, decoding_of("v", kind, attributes), kind)


def there_and_back(values: pa.Array, dtype: str, **attributes: Any) -> list[Any]:
    decoding = decoding_of("v", np.dtype(dtype), attributes)
    found: list[Any] = decoding.decode(stored(values, dtype, **attributes)).to_pylist()
    return found


@given(st.lists(st.none() | st.integers(-30_000, 30_000), min_size=1))
def test_packed_numbers_come_back_as_they_were(numbers: list[int | None]) -> None:
    values = pa.array([None if n is None else n * 0.01 + 10 for n in numbers], pa.float64())
    packing = {"scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}

    assert there_and_back(values, "i2", **packing) == pytest.approx(values.to_pylist())
    assert stored(values, "i2", **packing).tolist() == [-32768 if n is None else n for n in numbers]


@pytest.mark.parametrize(
    ("kind", "dtype", "attributes", "expected"),
    [
        (pa.int64(), "u1", {}, [1, 255]),
        (pa.decimal128(20, 0), "u8", {}, [1, 2**64 - 1]),
        (pa.float64(), ">f4", {}, [0.5, -2.0]),
        (pa.bool_(), "?", {}, [True, False]),
        (pa.int64(), "i1", {"_Unsigned": "true"}, [1, 200]),
        (pa.string(), "U3", {}, ["é", "abc"]),
        (pa.binary(), "S2", {}, [b"a", b"bc"]),
    ],
)
def test_values_of_every_kind_come_back(
    kind: pa.DataType, dtype: str, attributes: dict[str, Any], expected: list[Any]
) -> None:
    assert there_and_back(pa.array(expected, kind), dtype, **attributes) == expected


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_timestamps_become_numbers_of_the_units_of_the_array(dtype: str) -> None:
    moments = pa.array([datetime(2024, 5, 2, 6, tzinfo=UTC), None], MOMENT)
    attributes = {"units": "hours since 2024-05-01", "_FillValue": -1}

    assert stored(moments, dtype, **attributes).tolist() == [30, -1]
    assert there_and_back(moments, dtype, **attributes) == moments.to_pylist()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (pa.array([datetime(2024, 5, 2, tzinfo=UTC), None], MOMENT), "M8[s]"),
        (pa.array([3_000_000, None], pa.duration("us")), "m8[s]"),
    ],
)
def test_times_of_numpy_come_back(values: pa.Array, dtype: str) -> None:
    assert there_and_back(values, dtype) == values.to_pylist()


def test_null_is_nan_in_floats_that_have_nothing_else_for_it() -> None:
    found = stored(pa.array([1.5, None]), "f4")

    assert found[0] == 1.5
    assert np.isnan(found[1])


def test_nan_is_missing_where_only_whole_numbers_are_stored() -> None:
    assert stored(pa.array([np.nan, 2.0]), "i2", scale_factor=2, _FillValue=-1).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("values", "dtype", "attributes", "told"),
    [
        (pa.array([1, None]), "i2", {}, "no attribute _FillValue"),
        (pa.array([1, 300]), "u1", {}, "its array stores uint8"),
        (pa.array([1.5]), "i4", {}, "its array stores int32"),
        (pa.array([1e6]), "i2", {"scale_factor": 0.1}, "10000000.0 cannot be stored as int16"),
        (pa.array([1e300]), "f4", {}, "1e+300 cannot be stored as float32"),
        (pa.array([2.0, 9.0]), "f4", {"missing_value": 9}, "9.0 would be read as missing"),
        (pa.array(["long"]), "U3", {}, "long is longer than the 3"),
        (pa.array([b"a\0"]), "S3", {}, "ends with a zero"),
        (pa.array([b"\xff"]), "U3", {}, "type binary, and its array stores <U3"),
        (pa.array(["a", "?"]), "U3", {"_FillValue": "?"}, "would be read as missing"),
        (pa.array([b"a", None]), "S3", {}, "no attribute _FillValue to stand for them; fill them$"),
        (pa.array([1]), "U3", {}, "type int64"),
        (pa.array([1]), "i4", {"units": "days since 2000-01-01"}, "cast it to timestamp"),
        (
            pa.array([datetime(2024, 5, 2, 6, 30, tzinfo=UTC)], MOMENT),
            "i4",
            {"units": "hours since 2024-05-01"},
            "choose a finer unit",
        ),
        (pa.array([datetime(2024, 5, 2, 6, tzinfo=UTC)], MOMENT), "M8[D]", {}, "whole number"),
        (pa.array(["a"]), "M8[s]", {}, "type string"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    values: pa.Array, dtype: str, attributes: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told.replace("+", r"\+")):
        stored(values, dtype, **attributes)
