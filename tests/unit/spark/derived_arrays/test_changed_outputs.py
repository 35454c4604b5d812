"""Outputs that others changed, which the next pull makes whole again."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from tests.derived_array_builders import Cube

from icestream.errors import AlreadyExistsError, ConflictError
from icestream.ingest.array_derivation.declarations import ArrayPlace
from icestream.spark.derived_arrays.pulling import PulledArray, pull_derived_array
from icestream.spark.derived_arrays.replays import ReplayReport, verify_derived_array

EVERYTHING = 3 * 4
"""Chunks: three months, in four chunks each."""


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    """One that was pulled."""
    cube = Cube(tmp_path)
    cube.create(50)
    cube.derive()
    pull(cube)
    return cube


def pull(cube: Cube, **how: Any) -> PulledArray | None:
    return pull_derived_array(cube.workspace, cube.workspace.open("monthly"), None, **how)


def computed(pulled: PulledArray | None) -> int:
    return 0 if pulled is None else pulled.num_chunks


def verify(cube: Cube) -> ReplayReport:
    return verify_derived_array(cube.workspace.open("monthly"), None)


def change(cube: Cube, how: Callable[[Any], Any]) -> None:
    """Let somebody else commit to the repository of the output."""
    with cube.derived.transaction("main", message="by hand") as store:
        how(zarr.open_group(store, path="monthly", mode="a"))


def check_is_whole(cube: Cube) -> None:
    xr.testing.assert_allclose(cube.monthly()["t"], cube.daily().resample(time="MS").mean())
    assert verify(cube).is_valid
    opened = cube.workspace.open("monthly")
    assert opened.verify(inputs=cube.workspace.inputs_of(opened)).is_valid
    assert pull(cube) is None


def delete(group: Any) -> None:
    del group["t"]


def shorten(group: Any) -> None:
    group["t"].resize((1, 4, 6))


def replace(group: Any) -> None:
    old = group["t"]
    group.create_array(
        "t",
        shape=old.shape,
        chunks=old.chunks,
        dtype=old.dtype,
        fill_value=np.nan,
        dimension_names=["time", "lat", "lon"],
        overwrite=True,
    )


def replace_by_another_form(group: Any) -> None:
    group.create_array("t", data=np.zeros((2, 2)), overwrite=True)


def replace_by_group(group: Any) -> None:
    del group["t"]
    group.create_group("t")


def delete_with_coordinates(group: Any) -> None:
    for name in ("t", "time", "lat"):
        del group[name]


@pytest.mark.parametrize("is_input_changed", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        delete,
        shorten,
        replace,
        replace_by_another_form,
        replace_by_group,
        delete_with_coordinates,
    ],
)
def test_an_output_that_is_not_the_one_that_was_left_is_made_anew(
    cube: Cube, how: Callable[[Any], None], *, is_input_changed: bool
) -> None:
    change(cube, how)
    if is_input_changed:
        cube.change(25, 3, 5, 99)

    assert computed(pull(cube)) == EVERYTHING
    check_is_whole(cube)


def test_chunks_that_others_wrote_or_deleted_are_computed_again(cube: Cube) -> None:
    def meddle(group: Any) -> None:
        group["t"][0, 0, 0] = -1
        group["t"][1, 2:, 3:] = np.nan  # the fill value, for which there is no chunk

    change(cube, meddle)
    cube.change(25, 0, 0, 77)  # in January

    pulled = pull(cube)

    assert computed(pulled) == 3
    rows = cube.workspace.open("monthly").to_arrow()
    assert rows["chunk"].to_pylist()[-3:] == ["0/0/0", "1/0/0", "1/1/1"]
    check_is_whole(cube)


def test_a_version_of_the_input_is_used_again_to_mend_an_output(cube: Cube) -> None:
    change(cube, lambda group: group["t"].__setitem__((0, 0, 0), -1))

    assert computed(pull(cube)) == 1
    assert len(cube.workspace.open("monthly.versions").to_arrow()) == 1
    check_is_whole(cube)


def test_coordinates_that_others_changed_are_copied_again(cube: Cube) -> None:
    def meddle(group: Any) -> None:
        del group["lat"]
        group["time"][0] = 5

    change(cube, meddle)

    pulled = pull(cube)

    assert pulled is not None
    assert pulled.num_chunks == 0
    check_is_whole(cube)


def test_other_arrays_of_the_repository_do_not_matter(cube: Cube) -> None:
    def add(group: Any) -> None:
        group.create_array("other", data=np.arange(5), dimension_names=["x"])
        group["t"].attrs["history"] = "looked at"
        group["lat"].attrs["comment"] = "north is up"

    change(cube, add)

    assert pull(cube) is None
    cube.change(25, 3, 5, 99)
    assert computed(pull(cube)) == 1
    assert cube.monthly()["t"].attrs["history"] == "looked at"


def test_coordinates_that_others_wrote_with_the_same_values_do_not_matter(cube: Cube) -> None:
    change(cube, lambda group: group["lat"].__setitem__(slice(None), group["lat"][:]))

    assert pull(cube) is None


@pytest.mark.parametrize("how", [None, delete, shorten, replace_by_another_form])
def test_outputs_are_looked_at_also_when_the_last_pull_has_expired(
    cube: Cube, how: Callable[[Any], None] | None
) -> None:
    change(cube, how or (lambda group: group.attrs.update({"title": "means"})))
    repo = cube.derived
    repo.expire_snapshots(next(iter(repo.ancestry(branch="main"))).written_at)

    assert computed(pull(cube)) == (EVERYTHING if how else 0)
    check_is_whole(cube)


def test_everything_can_be_computed_again(cube: Cube) -> None:
    assert computed(pull(cube, recompute=True)) == EVERYTHING
    check_is_whole(cube)


def test_a_branch_that_was_moved_back_is_told_and_made_anew_on_demand(cube: Cube) -> None:
    first = cube.derived.lookup_branch("main")
    cube.grow(60)
    pull(cube)
    cube.derived.reset_branch("main", first)

    with pytest.raises(ConflictError, match=r"moved back.*--recompute"):
        pull(cube)
    assert computed(pull(cube, recompute=True)) == EVERYTHING
    check_is_whole(cube)


def test_a_repository_that_is_gone_is_made_anew_on_demand(cube: Cube) -> None:
    shutil.rmtree(cube.folder / "derived")

    with pytest.raises(ConflictError, match="--recompute"):
        pull(cube)
    assert computed(pull(cube, recompute=True)) == EVERYTHING
    check_is_whole(cube)


def test_what_others_put_at_the_place_of_a_new_output_is_not_touched(cube: Cube) -> None:
    change(cube, lambda group: group.create_array("mine", data=np.arange(3)))
    place = ArrayPlace(repository=str(cube.folder / "derived"), array="/monthly/mine")
    other = cube.derive(name="other", output=place)

    for recompute in (False, True):
        with pytest.raises(AlreadyExistsError, match="not of this derivation"):
            pull_derived_array(cube.workspace, other, None, recompute=recompute)


def test_an_input_of_another_type_makes_an_output_of_another_type(cube: Cube) -> None:
    with cube.repository.transaction("main", message="unpacked") as store:
        root = zarr.open_group(store)
        values = np.asarray(cube.daily().values, np.float32)
        root.create_array(
            "t",
            data=values,
            dimension_names=["time", "lat", "lon"],
            chunks=(10, 2, 3),
            overwrite=True,
        )

    assert computed(pull(cube)) == EVERYTHING
    assert cube.monthly()["t"].dtype == np.float32
    check_is_whole(cube)
