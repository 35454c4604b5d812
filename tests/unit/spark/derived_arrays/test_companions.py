"""Arrays that describe the input and go along with what is derived from it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from tests.derived_array_builders import Cube

from icestream.spark.derived_arrays.pulling import pull_derived_array

TIME = (np.arange(40), ["time"], {"units": "days since 2020-01-01"})
VALUES = np.arange(240.0).reshape(40, 2, 3)
LATITUDES = np.array([[10.0, 11.0, np.nan], [12.0, 13.0, 14.0]])


def derive(cube: Cube, arrays: dict[str, Any], **how: Any) -> xr.Dataset:
    cube.create_from({"time": TIME, **arrays})
    pull_derived_array(cube.workspace, cube.derive(**how), None)
    return cube.monthly()


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    return Cube(tmp_path)


CURVED = {
    "t": (
        VALUES,
        ["time", "y", "x"],
        {
            "coordinates": "time lat lon height season",
            "grid_mapping": "crs",
            "cell_measures": "area: area",
            "ancillary_variables": "flags",
            "standard_name": "air_temperature",
        },
    ),
    "lat": (LATITUDES, ["y", "x"], {"units": "degrees_north", "bounds": "lat_corners"}),
    "lon": (LATITUDES.T, ["x", "y"], {"units": "degrees_east"}),
    "lat_corners": (np.zeros((2, 3, 4)), ["y", "x", "corner"], {}),
    "height": (2.0, [], {"units": "m", "bounds": "nothing"}),
    "season": (np.arange(40), ["time"], {}),
    "crs": (np.int32(0), [], {"grid_mapping_name": "rotated_latitude_longitude"}),
    "area": (np.ones((2, 3)), ["y", "x"], {"units": "m2"}),
    "flags": (np.zeros((40, 2, 3), "i1"), ["time", "y", "x"], {}),
    "other": (np.zeros(3), ["x"], {}),
}


def test_what_does_not_depend_on_the_dimension_goes_along(cube: Cube) -> None:
    found = derive(cube, CURVED)

    assert set(found.variables) == {"t", "time", "lat", "lon", "lat_corners", "height"} | {
        "crs",
        "area",
    }
    assert set(found["t"].coords) == {"time", "lat", "lon", "height"}
    np.testing.assert_array_equal(found["lat"], LATITUDES)
    assert found["lon"].dims == ("x", "y")
    assert found["crs"].attrs["grid_mapping_name"] == "rotated_latitude_longitude"


def test_attributes_name_no_array_that_is_left_behind(cube: Cube) -> None:
    derive(cube, CURVED)

    group = zarr.open_group(cube.derived.readonly_session("main").store, path="monthly", mode="r")
    attributes = dict(group["t"].attrs)
    assert attributes["coordinates"] == "lat lon height"
    assert attributes["grid_mapping"] == "crs"
    assert attributes["cell_measures"] == "area: area"
    assert "ancillary_variables" not in attributes
    assert group["lat"].attrs["bounds"] == "lat_corners"
    assert "bounds" not in group["height"].attrs


@pytest.mark.parametrize(
    ("mapping", "is_kept"),
    [("crs", True), ("crs: x y", True), ("nothing", False), ("crs: x y other: lat", False)],
)
def test_a_grid_mapping_is_kept_if_all_that_it_names_is_there(
    cube: Cube, mapping: str, *, is_kept: bool
) -> None:
    arrays = {
        "t": (VALUES, ["time", "y", "x"], {"grid_mapping": mapping}),
        "crs": (np.int32(0), [], {}),
        "x": (np.arange(3), ["x"], {}),
        "y": (np.arange(2), ["y"], {}),
    }

    found = derive(cube, arrays)

    assert found["t"].attrs.get("grid_mapping") == (mapping if is_kept else None)
    assert ("crs" in found.variables) == is_kept


def test_companions_that_change_are_copied_again(cube: Cube) -> None:
    derive(cube, CURVED)
    opened = cube.workspace.open("monthly")
    assert pull_derived_array(cube.workspace, opened, None) is None
    with cube.repository.transaction("main", message="moved") as store:
        zarr.open_array(store, path="lat")[0, 0] = 20

    pulled = pull_derived_array(cube.workspace, opened, None)

    assert pulled is not None
    assert pulled.num_chunks == 0
    assert cube.monthly()["lat"][0, 0] == 20
    assert pull_derived_array(cube.workspace, opened, None) is None


def test_counts_have_the_name_of_counts_and_no_method(cube: Cube) -> None:
    found = derive(cube, CURVED, function="count")

    assert found["t"].attrs["standard_name"] == "air_temperature number_of_observations"
    assert "cell_methods" not in found["t"].attrs


def test_methods_of_the_input_come_before_those_of_the_derivation(cube: Cube) -> None:
    values = (VALUES, ["time", "y", "x"], {"cell_methods": "area: mean time: maximum"})

    found = derive(cube, {"t": values}, function="min")

    assert found["t"].attrs["cell_methods"] == "area: mean time: maximum time: minimum"


def test_functions_of_ones_own_are_no_method_of_the_conventions(cube: Cube) -> None:
    found = derive(cube, {"t": (VALUES, ["time", "y", "x"], {})}, function="numpy:median")

    assert "cell_methods" not in found["t"].attrs


def test_steps_do_not_have_the_bounds_of_single_positions(cube: Cube) -> None:
    arrays = {
        "t": (VALUES, ["time", "y", "x"], {}),
        "time": (np.arange(40), ["time"], {"units": "days since 2020-01-01", "bounds": "b"}),
        "b": (np.zeros((40, 2)), ["time", "nv"], {}),
    }

    found = derive(cube, arrays, group=None, steps=10)

    assert set(found.variables) == {"t", "time"}
    assert "bounds" not in {**found["time"].attrs, **found["time"].encoding}
