"""HDF5 files with all that real ones have, compared with h5py and with VirtualiZarr."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.foreign_files import write_netcdf4

from icestream.model.chunk_refs import ChunkType
from icestream.parsers.array_values import read_values
from icestream.parsers.file_contents import Loading
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import SourceFile

VIRTUALIZARR = "virtualizarr.parsers:HDFParser"
VALUES = np.arange(24, dtype="<i4").reshape(4, 6)


def scan_of(path: Path, make: Callable[[h5py.File], object], **options: Any) -> ScannedFile:
    """Write a file, and scan it."""
    with h5py.File(path, "w", **options) as file:
        make(file)
    return scan_file(str(path))


def values_of(scanned: ScannedFile, path: str) -> Any:
    return read_values(SourceFile.open(scanned.url), scanned.arrays[path])


def reasons(scanned: ScannedFile) -> dict[str | None, str]:
    return {problem.path: problem.reason for problem in scanned.problems}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


# -- the same as VirtualiZarr ----------------------------------------------------------------------


def test_metadata_and_references_are_those_of_virtualizarr(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    write_netcdf4(path)

    ours, theirs = scan_file(str(path)), scan_file(str(path), parser=VIRTUALIZARR)

    assert ours.groups == theirs.groups
    assert list(ours.arrays) == list(theirs.arrays)
    for name, array in ours.arrays.items():
        assert array.metadata == theirs.arrays[name].metadata
        for column in ("index", "kind", "byte_offset", "length"):
            found = getattr(array.references, column).tolist()
            assert found == getattr(theirs.arrays[name].references, column).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (2, 4)},
        {"chunks": (2, 4), "compression": "gzip", "shuffle": True},
        {"chunks": (2, 4), "fletcher32": True},
        {"chunks": (3, 6), "maxshape": (None, 6)},
        {"chunks": (9, 6), "maxshape": (None, 6)},
        {"chunks": (9, 8), "maxshape": (None, None)},
        {},
    ],
)
def test_chunks_and_codecs_are_those_of_virtualizarr(path: Path, options: dict[str, Any]) -> None:
    ours = scan_of(path, lambda f: f.create_dataset("v", data=VALUES, **options))

    theirs = scan_file(str(path), parser=VIRTUALIZARR).arrays["/v"]
    mine = ours.arrays["/v"]
    assert (mine.shape, mine.chunk_shape, mine.codecs) == (
        theirs.shape,
        theirs.chunk_shape,
        theirs.codecs,
    )
    assert mine.references.length.tolist() == theirs.references.length.tolist()
    assert np.array_equal(values_of(ours, "/v"), VALUES)


# -- layouts and filters ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [">f8", "<f4", "u1", ">i2", "?", "S5", "c8", "f2"])
def test_types_keep_their_byte_order_and_values(path: Path, dtype: str) -> None:
    values = VALUES.astype(dtype)

    scanned = scan_of(path, lambda f: f.create_dataset("v", data=values, chunks=(2, 3)))

    assert np.array_equal(values_of(scanned, "/v"), values)


@pytest.mark.parametrize("compression", ["lzf", "szip"])
def test_other_compressions_are_decoded(path: Path, compression: str) -> None:
    values = np.zeros((40, 40), "<f4") + np.arange(40, dtype="<f4")

    scanned = scan_of(
        path, lambda f: f.create_dataset("v", data=values, chunks=(20, 40), compression=compression)
    )

    assert scanned.problems == ()
    assert np.array_equal(values_of(scanned, "/v"), values)


def test_a_filter_without_codec_is_a_problem_of_its_array_only(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("lossy", data=VALUES, chunks=(2, 6), scaleoffset=0)
        file.create_dataset("plain", data=VALUES)

    scanned = scan_of(path, make)

    assert list(scanned.arrays) == ["/plain"]
    assert "scaleoffset" in reasons(scanned)["/lossy"]


def test_chunks_that_all_went_without_a_filter_are_read_without_it(path: Path) -> None:
    def make(file: h5py.File) -> None:
        dataset = file.create_dataset("v", (4, 6), "<i4", chunks=(2, 6), compression="gzip")
        for row in (0, 2):
            dataset.id.write_direct_chunk((row, 0), VALUES[row : row + 2].tobytes(), 1)

    assert np.array_equal(values_of(scan_of(path, make), "/v"), VALUES)


def test_chunks_of_which_some_went_without_a_filter_are_a_problem(path: Path) -> None:
    def make(file: h5py.File) -> None:
        dataset = file.create_dataset("v", data=VALUES, chunks=(2, 6), compression="gzip")
        dataset.id.write_direct_chunk((0, 0), VALUES[:2].tobytes(), 1)

    assert "1 of its 2 chunks" in reasons(scan_of(path, make))["/v"]


def test_compact_values_are_inline(path: Path) -> None:
    def make(file: h5py.File) -> None:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(VALUES.shape)
        kind = h5py.h5t.py_create(VALUES.dtype)
        dataset = h5py.h5d.create(file.id, b"v", kind, space, properties)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, VALUES)

    scanned = scan_of(path, make)

    assert scanned.arrays["/v"].references.kind.tolist() == [ChunkType.inline]
    assert np.array_equal(values_of(scanned, "/v"), VALUES)


def test_a_user_block_moves_all_chunks(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("chunked", data=VALUES, chunks=(2, 2))
        file.create_dataset("contiguous", data=VALUES)

    scanned = scan_of(path, make, userblock_size=1024)

    assert np.array_equal(values_of(scanned, "/chunked"), VALUES)
    assert np.array_equal(values_of(scanned, "/contiguous"), VALUES)


def test_chunks_that_were_never_written_are_missing_and_filled(path: Path) -> None:
    def make(file: h5py.File) -> None:
        some = file.create_dataset("some", (4, 6), "<i4", chunks=(2, 6), fillvalue=7)
        some[2:] = VALUES[2:]
        file.create_dataset("none", (4, 6), "<f8", fillvalue=np.nan)

    scanned = scan_of(path, make)

    assert scanned.arrays["/some"].references.index.tolist() == [[1, 0]]
    assert values_of(scanned, "/some")[0].tolist() == [7] * 6
    assert np.isnan(values_of(scanned, "/none")).all()


def test_scalars_and_empty_variables_survive(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("scalar", data=np.int16(5))
        file.create_dataset("empty", (0, 3), "<f4", maxshape=(None, 3), chunks=(1, 3))
        file.create_dataset("empty_text", (0,), h5py.string_dtype())

    scanned = scan_of(path, make)

    assert values_of(scanned, "/scalar") == 5
    assert [scanned.arrays[name].shape for name in ("/empty", "/empty_text")] == [(0, 3), (0,)]
    assert scanned.problems == ()


# -- texts -----------------------------------------------------------------------------------------


def test_texts_of_any_length_become_inline_chunks(path: Path) -> None:
    texts = np.array([["a", "bb", "ccc"], ["", "é", "long " * 20]], object)

    scanned = scan_of(
        path, lambda f: f.create_dataset("v", data=texts, chunks=(2, 2), maxshape=(None, 3))
    )

    assert scanned.arrays["/v"].data_type == "string"
    assert set(scanned.arrays["/v"].references.kind) == {ChunkType.inline}
    assert values_of(scanned, "/v").tolist() == texts.tolist()


def test_latin_1_survives_in_texts_and_attributes(path: Path) -> None:
    raw = "°C".encode("latin-1")

    def make(file: h5py.File) -> None:
        file.create_dataset("v", data=np.array([raw], object), dtype=h5py.string_dtype("ascii"))
        file["v"].attrs["fixed"] = np.bytes_(raw)
        file["v"].attrs["utf8"] = "°C"
        file["v"].attrs.create("variable", raw, dtype=h5py.string_dtype("ascii"))
        file["v"].attrs.create("many", [raw, b"x"], dtype=h5py.string_dtype("utf-8"))

    scanned = scan_of(path, make)

    assert values_of(scanned, "/v").tolist() == ["°C"]
    assert scanned.arrays["/v"].attributes == {
        "fixed": "°C",
        "utf8": "°C",
        "variable": "°C",
        "many": ["°C", "x"],
    }


# -- attributes ------------------------------------------------------------------------------------


def test_attributes_are_plain_values(path: Path) -> None:
    def make(file: h5py.File) -> None:
        attributes = file.create_dataset("v", data=VALUES).attrs
        attributes["one"] = np.array([2.5])
        attributes["many"] = np.array([1, 2], "u1")
        attributes["matrix"] = np.array([[1, 2], [3, 4]])
        attributes["flag"] = np.bool_(1)
        attributes["nothing"] = h5py.Empty("f4")

    assert scan_of(path, make).arrays["/v"].attributes == {
        "one": 2.5,
        "many": [1, 2],
        "matrix": [[1, 2], [3, 4]],
        "flag": True,
        "nothing": "",
    }


def test_attributes_that_json_cannot_hold_are_named(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("v", data=VALUES)
        file["v"].attrs["pointer"] = file["v"].ref
        file["v"].attrs["units"] = "m"

    scanned = scan_of(path, make)

    assert scanned.arrays["/v"].attributes == {"units": "m"}
    assert "'pointer'" in reasons(scanned)["/v"]
    assert not scanned.problems[0].is_fatal


# -- dimensions ------------------------------------------------------------------------------------


def test_dimensions_are_named_by_their_scales_wherever_those_are(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("x", data=np.arange(6.0)).make_scale("x")
        file.create_dataset("below/y", data=np.arange(4.0)).make_scale("y")
        variable = file.create_dataset("below/deeper/v", data=VALUES)
        variable.dims[0].attach_scale(file["below/y"])
        variable.dims[1].attach_scale(file["x"])

    scanned = scan_of(path, make)

    assert scanned.arrays["/below/deeper/v"].dimension_names == ("y", "x")
    assert sorted(scanned.values) == ["/below/y", "/x"]


def test_dimensions_without_name_get_one_by_their_length(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("a", data=np.zeros((4, 6)))
        file.create_dataset("b", data=np.zeros((6, 6)))

    scanned = scan_of(path, make)

    assert scanned.arrays["/a"].dimension_names == ("phony_dim_0", "phony_dim_1")
    assert scanned.arrays["/b"].dimension_names == ("phony_dim_1", "phony_dim_2")


def test_dimensions_that_are_no_variables_are_left_out(path: Path) -> None:
    def make(file: h5py.File) -> None:
        bare = "This is a netCDF dimension but not a netCDF variable.         6"
        file.create_dataset("x", (6,), ">f4").make_scale(bare)
        file.create_dataset("_nc4_non_coord_x", data=np.arange(6)).dims[0].attach_scale(file["x"])

    scanned = scan_of(path, make)

    assert list(scanned.arrays) == ["/x"]
    assert scanned.arrays["/x"].dimension_names == ("x",)
    assert values_of(scanned, "/x").tolist() == list(range(6))


def test_a_variable_is_as_long_as_its_unlimited_dimension(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("time", data=np.arange(5.0), maxshape=(None,)).make_scale("time")
        late = file.create_dataset("late", data=np.arange(3), maxshape=(None,), chunks=(2,))
        late.dims[0].attach_scale(file["time"])

    scanned = scan_of(path, make)

    assert scanned.arrays["/late"].shape == (5,)
    assert values_of(scanned, "/late").tolist() == [0, 1, 2, 0, 0]


# -- what references cannot express ----------------------------------------------------------------


def test_what_is_in_other_files_is_named(path: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["v"] = VALUES

    def make(file: h5py.File) -> None:
        file["link"] = h5py.ExternalLink("other.h5", "/v")
        file.create_dataset(
            "external", (4,), "<i4", external=[(str(tmp_path / "raw.bin"), 0, h5py.h5f.UNLIMITED)]
        )
        layout = h5py.VirtualLayout((4, 6), "<i4")
        layout[:] = h5py.VirtualSource("other.h5", "v", (4, 6))
        file.create_virtual_dataset("virtual", layout)
        file["dangling"] = h5py.SoftLink("/nowhere")

    found = reasons(scan_of(path, make))

    assert set(found) == {"/link", "/external", "/virtual", "/dangling"}
    assert "another file" in found["/link"]
    assert "external file" in found["/external"]
    assert "virtual dataset" in found["/virtual"]


def test_types_that_zarr_lacks_are_named(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        file.create_dataset("pointers", (2,), h5py.ref_dtype)
        file.create_dataset("gaps", (2,), np.dtype([("a", "i1"), ("b", "f8")], align=True))
        file.create_dataset("null", data=h5py.Empty("f4"))

    assert set(reasons(scan_of(path, make))) == {"/lists", "/pointers", "/gaps", "/null"}


def test_a_group_that_is_its_own_member_ends_the_walk(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_group("a")["again"] = file["/"]

    assert "another name" in reasons(scan_of(path, make))["/a/again"]


def test_only_what_is_asked_for_is_loaded(path: Path) -> None:
    def make(file: h5py.File) -> None:
        file.create_dataset("x", data=np.arange(6.0)).make_scale("x")
        file.create_dataset("quality_flag", data=VALUES)

    scan_of(path, make)
    loading = Loading(coordinates=False, patterns=("quality_*",))

    assert list(scan_file(str(path), loading=loading).values) == ["/quality_flag"]
