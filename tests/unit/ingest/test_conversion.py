"""Stored values of one form become stored values of another, or are refused."""

import math
from typing import Any

import numpy as np
import pytest
from tests.ingest_builders import virtual_array

from icestream.errors import InvalidInputError
from icestream.ingest.conversion.blocks import block_boxes
from icestream.ingest.conversion.converting import convert, obstacle_between
from icestream.ingest.conversion.meanings import Meaning, meaning_of
from icestream.parsers.array_documents import encoded_cf_fill_value


def document(data_type: Any = "int16", **attributes: Any) -> dict[str, Any]:
    array = virtual_array("s3://b/x", ("x",), (4,), (4,), attributes=attributes)
    return {**array.metadata, "data_type": data_type}


def converted(values: list[Any], source: dict[str, Any], target: dict[str, Any]) -> list[Any]:
    here, there = meaning_of(source), meaning_of(target)
    result = convert(np.array(values, here.stored), here, there)
    assert result.dtype == there.stored
    found: list[Any] = result.tolist()
    return found


# -- meanings --------------------------------------------------------------------------------------


def test_fill_values_are_read_in_every_spelling():
    spelled = encoded_cf_fill_value(np.array([1e20], "f4"), np.dtype("f4"))
    for text in (spelled, 1e20, "1e20", [1e20]):
        assert meaning_of(document("float32", _FillValue=text)).missing == (
            float(np.float32(1e20)),
        )


def test_what_cannot_occur_is_no_missing_value():
    assert meaning_of(document("int8", _FillValue=-9999, missing_value=0.5)).missing == ()
    assert meaning_of(document("float32", _FillValue="NaN")).missing == ()
    assert (
        meaning_of(document("int16", _FillValue=["no", None], missing_value="none")).missing == ()
    )


@pytest.mark.parametrize("value", ["much", [1, 2], True, math.inf])
def test_a_scale_that_is_no_number_is_refused(value):
    with pytest.raises(InvalidInputError, match="scale_factor"):
        meaning_of(document(scale_factor=value))
    assert "scale_factor" in str(obstacle_between(document(scale_factor=value), document()))


def test_a_scale_of_zero_is_refused():
    with pytest.raises(InvalidInputError, match="leaves no values"):
        meaning_of(document(scale_factor=0))


# -- values ----------------------------------------------------------------------------------------


def test_values_of_the_same_meaning_are_not_touched():
    values = np.array([b"a", b""])
    same = Meaning(values.dtype, values.dtype)
    assert convert(values, same, same) is values


def test_whole_numbers_of_64_bits_stay_exact():
    values = [2**63 - 1, -(2**63), 2**53 + 1]
    source = document("int64", _FillValue=-5)
    assert converted(values, source, document("int64", _FillValue=7)) == values
    with pytest.raises(InvalidInputError, match="cannot be held as float64"):
        converted(values, source, document("float64"))
    with pytest.raises(InvalidInputError, match="beyond what uint64 holds"):
        converted(values, source, document("uint64"))


def test_numbers_just_beyond_64_bits_are_refused():
    with pytest.raises(InvalidInputError, match="beyond what int64"):
        converted([2.0**63], document("float64"), document("int64"))
    assert converted([-(2.0**63)], document("float64"), document("int64")) == [-(2**63)]


def test_fractions_are_not_made_whole_without_packing():
    assert converted([1.0, 3.0], document("float32"), document("int16")) == [1, 3]
    with pytest.raises(InvalidInputError, match=r"2.5 is no whole number"):
        converted([1.0, 2.5], document("float32"), document("int16"))


def test_unsigned_numbers_in_signed_types_keep_their_values():
    source = document("int8", _Unsigned="true", _FillValue=-1)
    target = document("int16", _FillValue=-999)
    assert meaning_of(source).missing == (255,)
    assert converted([-2, -1, 3], source, target) == [254, -999, 3]
    assert converted([254, -999, 3], target, source) == [-2, -1, 3]


def test_missing_values_of_all_spellings_stay_missing():
    source = document("float32", _FillValue=-1.0, missing_value=-2.0)
    target = document("int16", scale_factor=0.5, _FillValue=99)
    assert converted([-1.0, -2.0, math.nan, 1.5], source, target) == [99, 99, 99, 3]


def test_floats_too_large_for_the_type_are_refused():
    with pytest.raises(InvalidInputError, match="cannot be held as float32"):
        converted([1e300], document("float64"), document("float32"))
    assert converted([math.inf], document("float64"), document("float32")) == [math.inf]
    with pytest.raises(InvalidInputError, match="beyond"):
        converted([math.inf], document("float64"), document("int16", scale_factor=2.0))


# -- obstacles -------------------------------------------------------------------------------------


def test_texts_are_copied_as_they_are_or_not_at_all():
    text = document("string")
    assert obstacle_between(text, text) is None
    assert obstacle_between(text, document()) is not None
    assert obstacle_between(document("string", _FillValue="-"), text) is not None


def test_times_of_another_calendar_are_refused():
    noleap = document(units="days since 2000-01-01", calendar="noleap")
    standard = document(units="days since 2000-01-01", calendar="standard")
    assert "calendar" in str(obstacle_between(noleap, standard))


def test_grib_messages_are_not_written():
    grib = {**document("float64"), "codecs": [{"name": "icestream.grib"}]}
    assert "GRIB" in str(obstacle_between(document("float64"), grib))
    assert obstacle_between(grib, document("float64")) is None


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_elements", [1, 30, 100, 10**6])
def test_blocks_fill_the_array_with_whole_chunks(max_elements):
    shape, originals, copies = (7, 10, 11), (1, 10, 4), (3, 2, 5)
    filled = np.zeros(shape, int)
    for box in block_boxes(shape, (originals, copies), max_elements):
        filled[tuple(slice(lo, hi) for lo, hi in box)] += 1
        assert all(lo % size == 0 for (lo, _), size in zip(box, copies, strict=True))
        assert math.prod(hi - lo for lo, hi in box) <= max(max_elements, math.prod(copies))
    assert (filled == 1).all()


def test_large_blocks_read_every_original_once():
    boxes = list(block_boxes((1, 6, 8), ((1, 6, 8), (1, 3, 4)), 1000))
    assert boxes == [((0, 1), (0, 6), (0, 8))]


def test_a_scalar_is_one_block():
    assert list(block_boxes((), ((), ()), 10)) == [()]
