"""Derived arrays, computed by executors from a cube whose bytes are in foreign files."""

import os
from pathlib import Path

import icechunk
import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession
from tests.derived_array_builders import Cube

from icestream.errors import InvalidInputError
from icestream.ingest.array_derivation.declarations import ArrayPlace
from icestream.spark import create_derived_array, pull_derived_array, verify_derived_array
from icestream.spark.derived_arrays.places import ArrayPlaces

DAYS = 70


def test_executors_compute_what_changed_and_replays_agree(
    spark: SparkSession, tmp_path: Path
) -> None:
    cube = Cube(tmp_path)
    source = cube.create_virtual(DAYS)
    places = ArrayPlaces(input=source)
    derivation = cube.derivation(input=ArrayPlace(repository=cube.address, array="/t"))
    dataset = create_derived_array(cube.workspace, derivation)

    first = pull_derived_array(cube.workspace, dataset, spark, places=places)
    session = source.writable_session("main")
    cube.refer_to(session.store, 30, cube.write_day(999, 31.0))
    session.commit("a better file")
    second = pull_derived_array(cube.workspace, dataset, spark, places=places)

    assert first is not None
    assert second is not None
    assert (first.num_chunks, second.num_chunks) == (3, 1)
    days = np.arange(DAYS, dtype="f8")
    days[30] = 31
    expected = [days[:22].mean(), days[22:51].mean(), days[51:].mean()]
    np.testing.assert_allclose(cube.monthly()["t"][:, 0], expected)
    report = verify_derived_array(dataset, spark, places=places)
    assert report.is_valid
    assert (report.num_blocks, report.num_chunks) == (2, 4)
    reference = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "derived"))
    )
    store = reference.readonly_session("main").store
    by_icechunk = xr.open_zarr(store, group="monthly", consolidated=False, zarr_format=3)
    np.testing.assert_allclose(by_icechunk["t"][:, 0], expected)


def test_what_executors_cannot_compute_is_told_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    cube = Cube(tmp_path)
    places = ArrayPlaces(input=cube.create_virtual(DAYS))
    dataset = create_derived_array(cube.workspace, cube.derivation())
    function = "tests.derived_array_builders:failing"
    failing = create_derived_array(cube.workspace, cube.derivation(name="x", function=function))

    with pytest.raises(InvalidInputError, match=r"chunk \d/0: .*failing failed.*ZeroDivisionError"):
        pull_derived_array(cube.workspace, failing, spark, places=places)
    pull_derived_array(cube.workspace, dataset, spark, places=places)
    file = cube.write_day(30, -5.0)
    os.utime(file, (file.stat().st_mtime + 100,) * 2)
    report = verify_derived_array(dataset, spark, places=places)

    [problem] = report.problems
    assert problem.rule == "transaction-is-reproducible"
    assert str(file) in problem.message
    assert report.num_blocks == 0
