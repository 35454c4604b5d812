"""Derived arrays, computed by executors from a cube whose bytes are in foreign files."""

from pathlib import Path

import icechunk
import numpy as np
import xarray as xr
import zarr
from pyspark.sql import SparkSession
from tests.derived_array_builders import Cube

import icestream as ice
from icestream.ingest.array_derivation.declarations import ArrayPlace
from icestream.repository.repository import Repository
from icestream.spark import create_derived_array, pull_derived_array, verify_derived_array
from icestream.spark.derived_arrays.places import ArrayPlaces

DAYS = 70


def virtual_cube(cube: Cube) -> Repository:
    """Return a repository with a file for each day."""
    files = cube.folder / "files"
    files.mkdir()
    prefix = f"file://{files}/"
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(prefix, ice.local_filesystem_store(str(files)))
    )
    repo = Repository.create(
        ice.local_filesystem_storage(cube.address),
        config,
        authorize_virtual_chunk_access={prefix: None},
    )
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    root.create_array(
        "t",
        shape=(DAYS, 6),
        chunks=(1, 6),
        dtype="<f4",
        compressors=None,
        dimension_names=["time", "x"],
    )
    time = root.create_array("time", data=np.arange(DAYS), dimension_names=["time"])
    time.attrs["units"] = "days since 2024-01-10"
    for day in range(DAYS):
        write_day(files, day, day)
        session.store.set_virtual_ref(f"t/c/{day}/0", f"{prefix}{day}.bin", 0, 24)
    session.commit("files")
    return repo


def write_day(files: Path, day: int, value: float) -> None:
    (files / f"{day}.bin").write_bytes(np.full(6, value, "<f4").tobytes())


def test_executors_compute_what_changed_and_replays_agree(
    spark: SparkSession, tmp_path: Path
) -> None:
    cube = Cube(tmp_path)
    source = virtual_cube(cube)
    places = ArrayPlaces(input=source)
    derivation = cube.derivation(input=ArrayPlace(repository=cube.address, array="/t"))
    dataset = create_derived_array(cube.workspace, derivation)

    first = pull_derived_array(cube.workspace, dataset, spark, places=places)
    session = source.writable_session("main")
    write_day(tmp_path / "files", 999, 31.0)
    session.store.set_virtual_ref("t/c/30/0", f"file://{tmp_path}/files/999.bin", 0, 24)
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
