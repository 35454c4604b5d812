"""Files that other projects bring with their tests: all are scanned, or said what is wrong."""

from importlib.util import find_spec
from pathlib import Path

import eccodes
import h5py
import numpy as np
import pytest
from astropy.io import fits

from icestream.parsers.array_values import read_values
from icestream.parsers.file_contents import Loading
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import SourceFile

EVERYTHING = Loading(patterns=("*",))


def samples(package: str, pattern: str) -> list[Path]:
    """Return files that an installed package brings; its tests may be left out."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return sorted(Path(spec.origin).parent.glob(pattern))


def sample(package: str, name: str) -> Path:
    found = samples(package, name)
    if not found:
        pytest.skip(f"{package} is installed without {name}")
    return found[0]


def loaded(path: Path) -> ScannedFile:
    found = scan_file(str(path), loading=EVERYTHING)
    assert found.problems == ()
    return found


# -- NetCDF-3 --------------------------------------------------------------------------------------


def test_a_model_output_of_the_classic_format() -> None:
    found = loaded(sample("xarray", "tests/data/example_1.nc"))
    assert found.parser == "netcdf3"
    assert found.groups["/"] == {"source": "Fictional Model Output"}
    assert found.arrays["/temp"].dimension_names == ("time", "level", "lat", "lon")
    assert found.arrays["/rh"].attributes["valid_range"] == [0, 1]
    assert found.values["/level"].tolist() == [1000, 850, 700, 500]
    np.testing.assert_array_equal(found.values["/rh"].ravel()[:3], np.array([0.5, 0.2, 0.4], "f4"))


def test_characters_and_numbers_of_all_types() -> None:
    found = loaded(sample("xarray", "tests/data/bears.nc"))
    texts = [b"".join(letters).decode() for letters in found.values["/bears"].reshape(6, -1)]
    assert texts[:2] == ["ind", "ist"]
    assert found.values["/order"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert found.arrays["/bears"].attributes["acl"] == 17000


# -- HDF5 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", samples("h5py", "tests/data_files/*.h5"), ids=lambda p: p.name)
def test_files_that_h5py_is_tested_with(path: Path) -> None:
    found = loaded(path)
    with h5py.File(path) as file:
        assert {f"/{name}" for name in file} == set(found.arrays)
        for name, dataset in file.items():
            expected = dataset.asstr()[()] if dataset.dtype.kind == "O" else dataset[()]
            np.testing.assert_array_equal(found.values[f"/{name}"], expected)


# -- GRIB ------------------------------------------------------------------------------------------


def test_every_message_of_an_ensemble_is_found() -> None:
    path = sample("xarray", "tests/data/example.grib")
    found = loaded(path)
    fields = [found.values[f"/isobaricInhPa/{name}"].reshape(-1, 3, 4) for name in "zt"]
    virtual = sorted(float(field.sum()) for field in np.concatenate(fields))
    direct = []
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            direct.append(float(eccodes.codes_get_values(handle).sum()))
            eccodes.codes_release(handle)
    assert virtual == pytest.approx(sorted(direct))


# -- FITS ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::astropy.utils.exceptions.AstropyWarning")
@pytest.mark.parametrize(
    "path", samples("astropy", "io/fits/tests/data/*.fits"), ids=lambda path: path.name
)
def test_images_of_telescopes_are_equal_and_all_else_is_named(path: Path) -> None:
    found = scan_file(str(path))
    source = SourceFile.open(str(path))
    named = {problem.path for problem in found.problems}
    options = {"do_not_scale_image_data": True, "disable_image_compression": True}
    with fits.open(path, **options) as units:
        images = [unit for unit in units if unit.is_image and unit.header["NAXIS"]]
        others = (fits.GroupsHDU, fits.BinTableHDU)
        plain = [unit for unit in images if not isinstance(unit, others)]
        assert len(found.arrays) == len(plain)
        assert len(named) == sum(bool(unit.header["NAXIS"]) for unit in units) - len(plain)
        for array, unit in zip(found.arrays.values(), plain, strict=True):
            if unit.data is not None:
                np.testing.assert_array_equal(read_values(source, array), unit.data)
