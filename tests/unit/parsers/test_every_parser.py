"""Every parser passes the suite, on files that are made here."""

import json
from pathlib import Path
from typing import ClassVar

import eccodes
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
import zarr
from tests.foreign_files import write_fits, write_netcdf3, write_netcdf4

from icestream.testing.parser_suite import ParserSample, ParserSuite


class TestNetcdf4(ParserSuite):
    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "a.nc"
        written = write_netcdf4(path)
        return ParserSample(
            path,
            {f"/{name}": values for name, values in written.items()},
            attributes={
                "/": {"title": "test", "conventions": "CF-1.8"},
                "/sst": {"units": "K", "scale_factor": 0.01, "add_offset": 273.15},
                "/sst_unpacked": {"_FillValue": "AAAAAAAA+H8="},
            },
            dimensions={"/sst": ("time", "lat", "lon"), "/time": ("time",)},
        )


class TestHdf5(ParserSuite):
    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "plain.h5"
        values = np.arange(60, dtype=">i4").reshape(6, 10)
        with h5py.File(path, "w") as file:
            file.create_dataset("a/b/chunked", data=values, chunks=(4, 4), compression="gzip")
            file.create_dataset("a/contiguous", data=values.astype("<f8"))
            file.create_dataset("scalar", data=np.float32(1.5))
            file.create_dataset("texts", data=np.array(["one", "zwei", "três"], object))
            file["a"].attrs["level"] = np.array([1, 2], "i2")
        texts = np.array(["one", "zwei", "três"], np.dtypes.StringDType())
        return ParserSample(
            path,
            {
                "/a/b/chunked": values,
                "/a/contiguous": values,
                "/scalar": np.array(1.5),
                "/texts": texts,
            },
            attributes={"/a": {"level": [1, 2]}},
        )


class TestNetcdf3(ParserSuite):
    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "a.nc"
        written = write_netcdf3(path, title="5 °C".encode("latin-1"))
        return ParserSample(
            path,
            {f"/{name}": values for name, values in written.items()},
            attributes={"/": {"title": "5 °C"}, "/sst": {"units": "degC"}},
            dimensions={"/sst": ("time", "x")},
        )


class TestGrib(ParserSuite):
    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "a.grib2"
        expected = np.full((1, 2, 2, 31, 16), np.nan)
        with path.open("wb") as file:
            for step, level in ((0, 0), (0, 1), (1, 0)):
                handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
                eccodes.codes_set(handle, "step", 6 * step)
                eccodes.codes_set(handle, "level", (500, 850)[level])
                eccodes.codes_set(handle, "bitsPerValue", 16)
                eccodes.codes_set_values(handle, np.arange(496.0) + 1000 * step + level)
                decoded = eccodes.codes_get_values(handle).reshape(31, 16)
                expected[0, step, level] = decoded
                eccodes.codes_write(handle, file)
                eccodes.codes_release(handle)
        return ParserSample(
            path,
            {"/isobaricInhPa/t": expected, "/isobaricInhPa/level": np.array([500.0, 850.0])},
            attributes={"/isobaricInhPa/t": {"units": "K", "standard_name": "air_temperature"}},
            dimensions={"/isobaricInhPa/t": ("time", "step", "level", "latitude", "longitude")},
        )


class TestGeotiff(ParserSuite):
    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "a.tif"
        image = np.arange(100 * 90, dtype="i2").reshape(100, 90)
        tags = [
            (33550, 12, 3, (0.5, 0.5, 0.0), True),
            (33922, 12, 6, (0, 0, 0, 10.0, 60.0, 0), True),
            (34735, 3, 8, (1, 1, 0, 1, 1025, 0, 1, 1), True),
            (42113, 2, 6, "-9999", True),
        ]
        tifffile.imwrite(
            path, image, tile=(32, 32), compression="zlib", predictor=2, extratags=tags
        )
        y = 60.0 - 0.5 * (np.arange(100) + 0.5)
        return ParserSample(
            path,
            {"/image": image, "/y": y},
            attributes={"/image": {"_FillValue": -9999}},
            dimensions={"/image": ("y", "x")},
        )


class TestFits(ParserSuite):
    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "a.fits"
        image = np.arange(12, dtype=">i4").reshape(3, 4)
        write_fits(path, image)
        return ParserSample(path, {"/PRIMARY": image})


class TestZarr2(ParserSuite):
    reads_any_storage: ClassVar[bool] = False
    is_one_file: ClassVar[bool] = False

    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "two.zarr"
        values = np.arange(40, dtype="f4").reshape(8, 5)
        group = zarr.open_group(str(path), mode="w", zarr_format=2)
        array = group.create_array("v", shape=(8, 5), chunks=(2, 5), dtype="f4", compressors=None)
        array[:] = values
        array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
        return ParserSample(path, {"/v": values}, dimensions={"/v": ("y", "x")})


class TestZarr3(ParserSuite):
    reads_any_storage: ClassVar[bool] = False
    is_one_file: ClassVar[bool] = False

    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        path = tmp_path / "three.zarr"
        values = np.arange(200, dtype="f8").reshape(20, 10)
        group = zarr.open_group(str(path), mode="w", zarr_format=3)
        array = group.create_array(
            "below/v", shape=(20, 10), chunks=(2, 5), dtype="f8", dimension_names=("y", "x")
        )
        array[:] = values
        return ParserSample(path, {"/below/v": values}, dimensions={"/below/v": ("y", "x")})


class TestKerchunkJson(ParserSuite):
    reads_any_storage: ClassVar[bool] = False
    is_one_file: ClassVar[bool] = False

    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        data = tmp_path / "data.bin"
        values = np.arange(8, dtype="<i4")
        data.write_bytes(b"head" + values.tobytes())
        layout = {
            "zarr_format": 2,
            "shape": [8],
            "chunks": [4],
            "dtype": "<i4",
            "fill_value": 0,
            "order": "C",
            "filters": None,
            "compressor": None,
        }
        refs = {
            ".zgroup": json.dumps({"zarr_format": 2}),
            "v/.zarray": json.dumps(layout),
            "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"], "units": "m"}),
            "v/0": [data.as_uri(), 4, 16],
            "v/1": [data.as_uri(), 20, 16],
        }
        path = tmp_path / "refs.json"
        path.write_text(json.dumps({"version": 1, "refs": refs}))
        return ParserSample(
            path, {"/v": values}, attributes={"/v": {"units": "m"}}, dimensions={"/v": ("x",)}
        )


class TestKerchunkParquet(ParserSuite):
    reads_any_storage: ClassVar[bool] = False
    is_one_file: ClassVar[bool] = False

    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        data = tmp_path / "data.bin"
        values = np.arange(24, dtype="<i4").reshape(6, 4)
        data.write_bytes(b"head" + values.tobytes())
        expected = values.copy()
        expected[4:] = -1
        layout = {
            "zarr_format": 2,
            "shape": [6, 4],
            "chunks": [2, 4],
            "dtype": "<i4",
            "fill_value": -1,
            "order": "C",
            "filters": None,
            "compressor": None,
        }
        metadata = {
            ".zgroup": {"zarr_format": 2},
            ".zattrs": {"title": "refs"},
            "v/.zarray": layout,
            "v/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "m"},
        }
        path = tmp_path / "refs.parq"
        (path / "v").mkdir(parents=True)
        (path / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 2}))
        references = pa.table(
            {
                "path": pa.array([str(data), None]).dictionary_encode(),
                "offset": [4, 0],
                "size": [32, 0],
                "raw": [None, values[2:4].tobytes()],
            }
        )
        pq.write_table(references, path / "v" / "refs.0.parq")
        return ParserSample(
            path,
            {"/v": expected},
            attributes={"/v": {"units": "m"}, "/": {"title": "refs"}},
            dimensions={"/v": ("y", "x")},
        )


class TestDmrpp(ParserSuite):
    reads_any_storage: ClassVar[bool] = False
    is_one_file: ClassVar[bool] = False

    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        data = tmp_path / "data.nc"
        values = np.arange(6, dtype="<f4")
        data.write_bytes(b"head" + values.tobytes())
        path = tmp_path / "data.nc.dmrpp"
        path.write_text(
            f"""<?xml version="1.0" encoding="ISO-8859-1"?>
            <Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#"
                xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#"
                dapVersion="4.0" dmrVersion="1.0" name="data.nc" dmrpp:href="{data.as_uri()}">
                <Dimension name="x" size="6"/>
                <Float32 name="v">
                    <Dim name="/x"/>
                    <Attribute name="units" type="String"><Value>m</Value></Attribute>
                    <dmrpp:chunks byteOrder="LE">
                        <dmrpp:chunk offset="4" nBytes="24"/>
                    </dmrpp:chunks>
                </Float32>
            </Dataset>"""
        )
        return ParserSample(
            path, {"/v": values}, attributes={"/v": {"units": "m"}}, dimensions={"/v": ("x",)}
        )
