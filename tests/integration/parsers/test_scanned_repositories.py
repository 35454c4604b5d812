"""Scanned files in a repository: opened with xarray they equal the files, for icechunk too."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import eccodes
import h5py
import icechunk as ice
import numpy as np
import pytest
import tifffile
import xarray as xr
from tests.foreign_files import write_netcdf4

from icestream.errors import ObjectChangedError
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig
from icestream.model.paths import sort_key
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage


class Archive:
    """A folder of files, and a repository of what is in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "files"
        self.folder.mkdir()
        self.place = str(folder / "repository")
        self.prefix = f"{self.folder.as_uri()}/"
        config = RepositoryConfig()
        config.set_virtual_chunk_container(
            VirtualChunkContainer(self.prefix, ObjectStoreConfig.LocalFileSystem(str(self.folder)))
        )
        self.repo = Repository.create(
            local_filesystem_storage(self.place),
            config,
            authorize_virtual_chunk_access={self.prefix: None},
        )

    def add(self, scanned: ScannedFile) -> None:
        """Commit all that a scan has found."""
        session = self.repo.writable_session("main")
        for path in sorted(scanned.groups, key=sort_key):
            document = {"zarr_format": 3, "node_type": "group"}
            document["attributes"] = scanned.groups[path]
            session._copy.put_metadata(path, json.dumps(document).encode())
        for path, array in scanned.arrays.items():
            session._copy.put_metadata(path, json.dumps(array.metadata).encode())
            session._copy.put_table(path, array.references)
        session.commit("scanned")

    def stores(self) -> Iterator[Any]:
        """Yield the content as we read it, and as icechunk does."""
        yield self.repo.readonly_session("main").store
        storage = ice.local_filesystem_storage(self.place)
        access: Any = {self.prefix: ice.credentials.LocalFileSystemAccess}
        peer = ice.Repository.open(storage, authorize_virtual_chunk_access=access)
        yield peer.readonly_session("main").store


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


@contextmanager
def foreign_codecs() -> Iterator[None]:
    """Ignore that zarr warns of codecs and types beyond its specification."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def opened(store: Any, **options: Any) -> xr.Dataset:
    with foreign_codecs():
        dataset: xr.Dataset = xr.open_zarr(store, consolidated=False, **options).load()
        return dataset


def test_netcdf4_equals_the_file(archive: Archive) -> None:
    path = archive.folder / "a.nc"
    write_netcdf4(path)
    archive.add(scan_file(str(path)))

    with xr.open_dataset(path, engine="h5netcdf") as expected:
        for store in archive.stores():
            xr.testing.assert_identical(opened(store), expected.load())


def test_hdf5_with_groups_and_texts_equals_the_file(archive: Archive) -> None:
    path = archive.folder / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("g/x", data=np.arange(3.0)).make_scale("x")
        texts = file.create_dataset("g/names", data=np.array(["a", "ß", "c"], object))
        texts.dims[0].attach_scale(file["g/x"])
        values = file.create_dataset("g/v", data=np.arange(3, dtype=">i2"), chunks=(2,))
        values.dims[0].attach_scale(file["g/x"])
        file["g"].create_dataset("crs", data=np.int32(0)).attrs["epsg"] = 4326
    archive.add(scan_file(str(path)))

    for store in archive.stores():
        found = opened(store, group="g")
        assert found["names"].values.tolist() == ["a", "ß", "c"]
        assert found["v"].values.tolist() == [0, 1, 2]
        assert found["v"].dims == ("x",)
        assert found["crs"].attrs["epsg"] == 4326


def test_a_file_that_changed_after_its_scan_is_not_read(archive: Archive) -> None:
    path = archive.folder / "a.nc"
    write_netcdf4(path)
    archive.add(scan_file(str(path), checksums="etag"))
    write_netcdf4(path, seed=1)

    with pytest.raises(ObjectChangedError):
        opened(archive.repo.readonly_session("main").store)


def test_grib_equals_what_eccodes_decodes(archive: Archive) -> None:
    path = archive.folder / "a.grib1"
    handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib1")
    values = np.arange(496.0) / 7
    values[5] = 9999
    eccodes.codes_set(handle, "bitmapPresent", 1)
    eccodes.codes_set(handle, "bitsPerValue", 24)
    eccodes.codes_set_values(handle, values)
    expected = eccodes.codes_get_values(handle)
    with path.open("wb") as file:
        eccodes.codes_write(handle, file)
    eccodes.codes_release(handle)
    expected[5] = np.nan
    archive.add(scan_file(str(path)))

    for store in archive.stores():
        found = opened(store, group="surface")
        assert np.array_equal(found["2t"].values.ravel(), expected, equal_nan=True)
        assert found["time"].values.tolist() == [np.datetime64("2007-03-23T12", "ns").astype(int)]
        assert found["latitude"].values[[0, -1]].tolist() == [60.0, 0.0]


def test_geotiff_equals_what_tifffile_decodes(archive: Archive) -> None:
    path = archive.folder / "a.tif"
    image = np.random.default_rng(0).normal(size=(70, 50)).astype("f4")
    tifffile.imwrite(path, image, tile=(32, 32), compression="lzw", predictor=3)
    archive.add(scan_file(str(path)))

    for store in archive.stores():
        assert np.array_equal(opened(store)["image"].values, image)
