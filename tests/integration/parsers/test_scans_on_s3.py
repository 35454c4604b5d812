"""Files in buckets are scanned as those on disk are, and what that asks of the store is counted."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eccodes
import h5py
import numpy as np
import pytest
import tifffile
from tests.foreign_files import write_fits, write_netcdf3, write_netcdf4

from icestream.parsers.isolation import scan_file_isolated
from icestream.parsers.scanned_files import ScanCost, ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import FindObject
from icestream.storage import s3_storage
from icestream.storage.protocol import Storage
from icestream.testing.fake_servers import FakeS3
from icestream.testing.servers import S3Server

MEGABYTE = 1 << 20


def netcdf4(path: Path) -> None:
    write_netcdf4(path)


def large_netcdf4(path: Path) -> None:
    """Write 16 MB in 256 chunks, as many programs do: a dimension that grows, an old B-tree."""
    values = np.random.default_rng(0).integers(0, 255, (64, 512, 512), np.uint8)
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("v", data=values, chunks=(1, 256, 256), maxshape=(None, 512, 512))


def grib(path: Path) -> None:
    with path.open("wb") as file:
        for step in range(3):
            handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
            eccodes.codes_set(handle, "step", 6 * step)
            eccodes.codes_set_values(handle, np.arange(496.0) + step)
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)


def large_grib(path: Path) -> None:
    """Write ten messages of more than a megabyte each."""
    values = np.random.default_rng(0).normal(280, 10, 720 * 1440)
    with path.open("wb") as file:
        for step in range(10):
            handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
            for key, value in {
                "Ni": 1440,
                "Nj": 720,
                "iDirectionIncrementInDegrees": 0.25,
                "jDirectionIncrementInDegrees": 0.25,
                "latitudeOfFirstGridPointInDegrees": 89.875,
                "latitudeOfLastGridPointInDegrees": -89.875,
                "longitudeOfFirstGridPointInDegrees": 0,
                "longitudeOfLastGridPointInDegrees": 359.75,
                "bitsPerValue": 16,
                "step": 6 * step,
            }.items():
                eccodes.codes_set(handle, key, value)
            eccodes.codes_set_values(handle, values)
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)


def tiff(path: Path) -> None:
    image = np.arange(100 * 90, dtype="i2").reshape(100, 90)
    tifffile.imwrite(path, image, tile=(32, 32), compression="zlib")


def large_tiff(path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 60000, (2048, 2048), np.uint16)
    tifffile.imwrite(path, image, tile=(256, 256))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.nc": netcdf4,
    "classic.nc": write_netcdf3,
    "large.h5": large_netcdf4,
    "a.grib2": grib,
    "large.grib2": large_grib,
    "a.tif": tiff,
    "large.tif": large_tiff,
    "a.fits": lambda path: write_fits(path, np.arange(12, dtype=">i4").reshape(3, 4)),
}


class InBucket:
    """Finds the objects of one bucket; picklable."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __call__(self, url: str) -> tuple[Storage, str]:
        return self.storage, url.split("/", 3)[3]


def assert_same_content(found: ScannedFile, expected: ScannedFile) -> None:
    assert found.problems == expected.problems
    assert found.groups == expected.groups
    assert list(found.arrays) == list(expected.arrays)
    for path, array in found.arrays.items():
        assert array.metadata == expected.arrays[path].metadata
        here, there = array.references, expected.arrays[path].references
        for column in ("index", "kind", "byte_offset", "length"):
            np.testing.assert_array_equal(getattr(here, column), getattr(there, column))
    assert list(found.values) == list(expected.values)
    for path, values in found.values.items():
        np.testing.assert_array_equal(values, expected.values[path])


# -- a real server ---------------------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize("name", WRITERS)
def test_a_scan_in_a_bucket_finds_what_a_scan_on_disk_does(
    name: str, tmp_path: Path, moto: S3Server
) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    storage = s3_storage(bucket=moto.new_bucket(), prefix="", **moto.storage_arguments())
    storage.put(f"archive/{name}", path.read_bytes())
    find: FindObject = InBucket(storage)

    found = scan_file(f"s3://bucket/archive/{name}", find_object=find)

    assert_same_content(found, scan_file(str(path)))
    etags = {
        etag
        for array in found.arrays.values()
        for etag in array.references.etag_column().to_pylist()
        if etag
    }
    assert etags == {found.identity.etag}


# -- requests --------------------------------------------------------------------------------------


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with FakeS3({"bucket": "us-east-1"}) as server:
        yield server


@pytest.fixture
def find_object(s3: FakeS3) -> FindObject:
    return InBucket(
        s3_storage(
            bucket="bucket",
            prefix="",
            endpoint_url=s3.url,
            allow_http=True,
            force_path_style=True,
            region="us-east-1",
            access_key_id="id",
            secret_access_key="key",
        )
    )


@pytest.mark.parametrize("name", WRITERS)
def test_every_request_is_counted(
    name: str, tmp_path: Path, s3: FakeS3, find_object: FindObject
) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    s3.put(f"/bucket/{name}", path.read_bytes())

    found = scan_file(f"s3://bucket/{name}", find_object=find_object)

    assert found.cost.num_requests == len(s3.requests)
    assert found.cost.num_bytes > 0


@pytest.mark.parametrize("name", ["a.nc", "classic.nc", "a.grib2", "a.tif"])
def test_small_files_take_one_look_and_one_read(
    name: str, tmp_path: Path, s3: FakeS3, find_object: FindObject
) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    s3.put(f"/bucket/{name}", path.read_bytes())

    found = scan_file(f"s3://bucket/{name}", find_object=find_object)

    chunks_read = sum(len(found.arrays[path].references) for path in found.values)
    assert found.cost.num_requests <= 2 + chunks_read
    assert found.cost.num_bytes <= 2 * path.stat().st_size


@pytest.mark.parametrize(
    ("name", "requests", "megabytes"),
    [("large.h5", 10, 1), ("large.tif", 4, 1)],
)
def test_of_large_files_only_headers_are_read(
    name: str,
    tmp_path: Path,
    *,
    requests: int,
    megabytes: int,
    find_object: FindObject,
    s3: FakeS3,
) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    s3.put(f"/bucket/{name}", path.read_bytes())

    cost = scan_file(f"s3://bucket/{name}", find_object=find_object).cost

    assert cost.num_requests <= requests
    assert cost.num_bytes <= megabytes * MEGABYTE < path.stat().st_size


def test_messages_are_read_in_few_requests(
    tmp_path: Path, find_object: FindObject, s3: FakeS3
) -> None:
    path = tmp_path / "large.grib2"
    large_grib(path)
    s3.put("/bucket/large.grib2", path.read_bytes())

    cost = scan_file("s3://bucket/large.grib2", find_object=find_object).cost

    assert cost.num_requests <= 5
    assert cost.num_bytes <= 1.1 * path.stat().st_size


def test_requests_of_parsers_of_virtualizarr_are_counted(
    s3: FakeS3, find_object: FindObject
) -> None:
    layout = {
        "zarr_format": 2,
        "shape": [8],
        "chunks": [8],
        "dtype": "<i4",
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "compressor": None,
    }
    refs = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "x/.zarray": json.dumps(layout),
        "x/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
        "x/0": ["s3://bucket/data.bin", 4, 32],
    }
    document = json.dumps({"version": 1, "refs": refs}).encode()
    s3.put("/bucket/data.bin", b"head" + np.arange(8, dtype="<i4").tobytes())
    s3.put("/bucket/refs.json", document)

    found = scan_file("s3://bucket/refs.json", find_object=find_object)

    assert found.values["/x"].tolist() == list(range(8))
    assert found.cost.num_requests == len(s3.requests)
    assert found.cost.num_bytes >= len(document) + 32


def test_requests_of_other_processes_are_counted_too(
    tmp_path: Path, s3: FakeS3, find_object: FindObject
) -> None:
    write_netcdf4(tmp_path / "a.nc")
    s3.put("/bucket/a.nc", (tmp_path / "a.nc").read_bytes())
    cost = scan_file_isolated("s3://bucket/a.nc", find_object=find_object).cost
    assert cost.num_requests == len(s3.requests)
    assert scan_file("s3://bucket/a.nc", find_object=find_object).cost == cost
    assert cost + cost == ScanCost(2 * cost.num_requests, 2 * cost.num_bytes)


def test_files_of_this_machine_take_no_requests(tmp_path: Path) -> None:
    write_netcdf4(tmp_path / "a.nc")
    assert scan_file(str(tmp_path / "a.nc")).cost == ScanCost()
