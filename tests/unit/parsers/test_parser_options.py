"""Parsers of others with arguments."""

import pickle
from pathlib import Path

import pytest
from tests.foreign_files import write_netcdf4

from icestream.errors import InvalidInputError
from icestream.parsers.isolation import scan_file_isolated
from icestream.parsers.parser_options import options_fault, with_options
from icestream.parsers.scanning import scan_file

HDF = "virtualizarr.parsers:HDFParser"


@pytest.fixture
def file(tmp_path: Path) -> str:
    write_netcdf4(tmp_path / "sst.nc")
    return str(tmp_path / "sst.nc")


def test_options_reach_the_parser(file: str):
    scanned = scan_file(file, parser=with_options(HDF, {"drop_variables": ["sst"]}))
    assert "/sst_unpacked" in scanned.arrays
    assert "/sst" not in scanned.arrays
    assert scanned.parser == HDF


def test_options_reach_the_parser_in_another_process(file: str):
    parser = with_options(HDF, {"drop_variables": ["sst", "sst_unpacked"]})
    scanned = scan_file_isolated(file, parser=parser)
    assert set(scanned.arrays) == {"/time", "/lat", "/lon"}


def test_options_that_a_parser_does_not_have_are_a_fault_of_the_caller(file: str):
    with pytest.raises(InvalidInputError, match="the options colour"):
        scan_file(file, parser=with_options(HDF, {"colour": "red"}))


def test_without_options_a_name_stays_a_name():
    assert with_options("auto", {}) == "auto"


def test_a_format_whose_files_are_folders_stays_one():
    parser = pickle.loads(pickle.dumps(with_options("zarr", {"group": "a"})))
    assert parser.is_for_folders
    assert not with_options(HDF, {"group": "a"}).is_for_folders


@pytest.mark.parametrize(
    ("name", "is_fine"), [("zarr", True), (HDF, True), ("auto", False), ("hdf5", False)]
)
def test_only_parsers_of_others_have_options(name, is_fine):
    assert (options_fault(name, {"group": "a"}) is None) == is_fine
    assert options_fault(name, {}) is None
