"""Groups of values made into one, and functions that do not do so."""

from typing import Any

import numpy as np
import pytest
from tests.derived_array_builders import Cube

from icestream.errors import InvalidInputError
from icestream.spark.derived_arrays.pulling import pull_derived_array
from icestream.spark.derived_arrays.reductions import reduced

TIME = (np.arange(3), ["time"], {"units": "days since 2020-01-01"})
LARGE = np.array([2**63 + 4096, 2**63 + 8192, 1], np.uint64)


def derived(cube: Cube, values: Any, function: str, **attributes: Any) -> Any:
    cube.create_from({"t": (values, ["time"], attributes), "time": TIME})
    pull_derived_array(cube.workspace, cube.derive(function=function), None)
    return cube.monthly()["t"].values


@pytest.mark.parametrize(
    ("function", "expected"),
    [("max", 2**63 + 8192), ("min", 1), ("count", 3), ("mean", float(2**64 + 12289) / 3)],
)
def test_whole_numbers_of_64_bits_without_a_sign_are_taken_as_they_are(
    tmp_path: Any, function: str, expected: float
) -> None:
    [found] = derived(Cube(tmp_path), LARGE, function)

    assert found == expected


def test_missing_ones_among_them_are_left_out(tmp_path: Any) -> None:
    [found] = derived(Cube(tmp_path), LARGE, "max", _FillValue=2**63 + 8192)

    assert found == 2.0**63 + 4096


def test_signed_numbers_that_are_meant_without_a_sign_are_as_large(tmp_path: Any) -> None:
    [found] = derived(Cube(tmp_path), LARGE.view(np.int64), "max", _Unsigned="true")

    assert found == 2**63 + 8192


def test_a_sum_that_64_bits_do_not_hold_is_refused(tmp_path: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"chunk 0: a sum does not fit .* uint64"):
        derived(Cube(tmp_path), LARGE, "sum")


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_a_sum_just_within_64_bits_is_exact(dtype: type) -> None:
    largest = np.iinfo(dtype).max

    assert reduced("sum", np.array([largest - 1, 1], dtype), 0) == largest
    with pytest.raises(InvalidInputError, match="does not fit"):
        reduced("sum", np.array([largest, 1], dtype), 0)


def test_a_function_that_fails_is_named_with_its_chunk(tmp_path: Any) -> None:
    name = "tests.derived_array_builders:failing"

    with pytest.raises(
        InvalidInputError, match=rf"chunk 0: {name} failed.*ZeroDivisionError: 1 dim"
    ) as caught:
        derived(Cube(tmp_path), np.arange(3.0), name)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("numpy:pi", "numpy:pi is no function, but a float"),
        ("numpy:array_repr", "no numbers"),
        ("numpy:cumsum", r"made \(3,\) of \(3,\)"),
    ],
)
def test_what_is_no_function_of_a_block_is_refused(tmp_path: Any, name: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=f"chunk 0: .*{told}"):
        derived(Cube(tmp_path), np.arange(3.0), name)
