"""Files of another form are copied into the array of the others, with the values that they have."""

import pickle
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.followed_archives import combined, found_in
from tests.ingest_builders import archive, planned
from tests.ingested_archives import ArchiveOnDisk

from icestream.errors import ErrorKind, InvalidInputError, SourceError
from icestream.ingest.declaration.archives import Axis, OnMismatch, PlaceBy, Policies
from icestream.ingest.materialising import materialise, reads_with
from icestream.ingest.placement.problems import ProblemKind
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.runs import run_archive
from icestream.model.chunk_refs import ChunkType, InlineRef
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import find_with_environment

pytestmark = pytest.mark.usefixtures("quick_runs")

POLICIES = Policies(on_mismatch=OnMismatch.MATERIALISE)
ALONG_TIME = Axis(dimension="time")
TIME = archive(ALONG_TIME, policies=POLICIES)
PACKED = {
    "dtype": "i2",
    "scale_factor": 0.01,
    "add_offset": 280.0,
    "_FillValue": -9999,
    "chunksizes": (1, 3, 4),
}
FLOATS = {"dtype": "f4", "_FillValue": np.float32(np.nan), "chunksizes": (1, 3, 4)}


def fields(number: int, units: str = "K", steps: int = 1) -> xr.Dataset:
    """Return temperatures of hundredths, so that packing loses nothing; one is missing."""
    rng = np.random.default_rng(number)
    sst = np.round(rng.normal(280, 5, (steps, 6, 8)), 2)
    sst[0, 0, number] = np.nan
    days = np.datetime64("2020-02-20", "ns") + np.arange(steps) * np.timedelta64(1, "D")
    return xr.Dataset(
        {"sst": (("time", "lat", "lon"), sst, {"units": units})},
        coords={"time": days + np.timedelta64(steps * number, "D"), "lat": np.arange(6.0)},
    )


@pytest.fixture
def save(on_disk: ArchiveOnDisk) -> Callable[..., Path]:
    def saved(number: int, content: xr.Dataset | None = None, **sst: Any) -> Path:
        path = on_disk.files / f"{number}.nc"
        content = fields(number) if content is None else content
        options: dict[str, Any] = {"sst": sst, "time": {"units": "hours since 2020-01-01"}}
        known = {name: found for name, found in options.items() if name in content}
        content.to_netcdf(path, engine="h5netcdf", encoding=known)
        return path

    return saved


def scanned(paths: Iterable[Path]) -> list[ScannedFile]:
    return [scan_file(str(path)) for path in paths]


def ingest(on_disk: ArchiveOnDisk, axis: Axis = ALONG_TIME) -> None:
    on_disk.run(combined(on_disk, axis, policies=POLICIES))


def kinds(on_disk: ArchiveOnDisk, path: str = "/sst") -> list[set[int]]:
    """Return how chunks are kept, by their place along the first dimension."""
    table = on_disk.ours().readonly_session("main").reference_table(path)
    first = table.index[:, 0]
    return [set(table.kind[first == i].tolist()) for i in range(int(first.max()) + 1)]


def assert_same_values(
    on_disk: ArchiveOnDisk, paths: Iterable[Path], tolerance: float = 1e-6
) -> None:
    found = found_in(on_disk)
    parts = [xr.load_dataset(path, engine="h5netcdf") for path in paths]
    expected = xr.concat(parts, "time", data_vars="minimal", coords="minimal", join="exact")
    assert found.sst.isnull().any()
    np.testing.assert_array_equal(found.time, expected.time)
    np.testing.assert_allclose(found.sst, expected.sst, rtol=0, atol=tolerance)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"chunksizes": (1, 6, 8)},
        {"chunksizes": (1, 2, 3)},
        {"chunksizes": (1, 4, 5), "zlib": True},
        {"contiguous": True, "chunksizes": None},
        {"zlib": True, "shuffle": True},
        {"fletcher32": True},
        {"dtype": ">i2"},
    ],
)
def test_values_of_another_layout_are_copied_bit_by_bit(save, other, on_disk):
    paths = [save(0, **PACKED), save(1, **PACKED), save(2, **{**PACKED, **other})]
    ingest(on_disk)
    assert_same_values(on_disk, paths, tolerance=0)
    assert kinds(on_disk)[:2] == [{ChunkType.virtual}] * 2
    assert kinds(on_disk)[2] <= {ChunkType.inline, ChunkType.native}


@pytest.mark.parametrize(
    "other",
    [
        {"scale_factor": 0.005},
        {"add_offset": 270.0},
        {"scale_factor": None, "add_offset": None, "dtype": "f4", "_FillValue": np.float32(1e20)},
        {"scale_factor": None, "add_offset": None, "dtype": "f8", "_FillValue": np.nan},
        {"dtype": "i4", "_FillValue": -(2**31)},
        {"_FillValue": 32767},
        {"dtype": "u2", "_FillValue": 65535, "add_offset": 200.0},
    ],
)
def test_values_of_another_packing_are_packed_anew(save, other, on_disk):
    encoding = {key: value for key, value in {**PACKED, **other}.items() if value is not None}
    paths = [save(0, **PACKED), save(1, **encoding), save(2, **PACKED)]
    ingest(on_disk)
    assert_same_values(on_disk, paths, tolerance=5e-5)
    assert kinds(on_disk)[0] == kinds(on_disk)[2] == {ChunkType.virtual}


def test_packed_values_are_unpacked_into_an_array_of_floats(save, on_disk):
    paths = [save(0, **FLOATS), save(1, **FLOATS), save(2, **{**PACKED, "chunksizes": (1, 6, 8)})]
    ingest(on_disk)
    assert_same_values(on_disk, paths, tolerance=5e-5)


def test_many_steps_in_one_file_are_copied_to_their_places(save, on_disk):
    usual = {**PACKED, "chunksizes": (2, 3, 4)}
    paths = [
        save(number, fields(number, steps=4), **{**usual, **other})
        for number, other in enumerate([{}, {"chunksizes": (4, 2, 8)}, {}])
    ]
    ingest(on_disk)
    assert_same_values(on_disk, paths, tolerance=0)
    assert [ChunkType.virtual in kind for kind in kinds(on_disk)] == [True, True, False, False] + [
        True
    ] * 2


def test_the_last_file_may_end_inside_of_a_chunk(save, on_disk):
    usual = {**PACKED, "chunksizes": (2, 3, 4)}
    paths = [save(number, fields(number, steps=2), **usual) for number in (0, 1)]
    last = fields(0).assign_coords(time=[np.datetime64("2020-03-01", "ns")])
    paths.append(save(2, last, **PACKED))
    ingest(on_disk)
    assert_same_values(on_disk, paths, tolerance=0)


def test_files_get_the_dimension_that_they_do_not_have(save, on_disk):
    paths = [
        save(number, fields(number).isel(time=0, drop=True), **{**PACKED, "chunksizes": chunks})
        for number, chunks in enumerate([(3, 4), (3, 4), (2, 8)])
    ]
    axis = Axis(
        dimension="run", by=PlaceBy.NAME, pattern=r"(?P<run>\d+)\.nc", format="number", new=True
    )
    ingest(on_disk, axis)
    found = found_in(on_disk)
    for number, path in enumerate(paths):
        expected = xr.load_dataset(path, engine="h5netcdf").sst
        np.testing.assert_array_equal(found.sst[number], expected)


# -- refusals --------------------------------------------------------------------------------------


def test_a_value_beyond_the_packing_is_refused_with_its_file(save, on_disk):
    hot = fields(1)
    hot["sst"][0, 3, 3] = 1e4
    paths = [save(0, **PACKED), save(1, hot, **FLOATS), save(2, **PACKED)]
    with pytest.raises(SourceError, match=r"beyond what int16 holds") as caught:
        ingest(on_disk)
    assert str(paths[1]) in caught.value.message
    assert "era or set-aside" in caught.value.message


def test_a_value_that_would_read_as_missing_is_refused(save, on_disk):
    cold = fields(1)
    cold["sst"][0, 3, 3] = 280 - 99.99
    for number, content, form in ((0, None, PACKED), (1, cold, FLOATS), (2, None, PACKED)):
        save(number, content, **form)
    with pytest.raises(SourceError, match="would be read as a missing value"):
        ingest(on_disk)


def test_missing_values_need_something_that_stands_for_them(save, on_disk):
    whole = [fields(number).fillna(280.0).round().astype("i2") for number in range(2)]
    for number, content in enumerate(whole):
        save(number, content, chunksizes=(1, 3, 4))
    save(2, fields(2).round(), dtype="i2", _FillValue=-9999)
    with pytest.raises(SourceError, match="1 values are missing"):
        ingest(on_disk)


def test_other_units_are_refused_before_anything_is_copied(save, on_disk):
    paths = [save(0, **PACKED), save(1, fields(1, units="degC"), **PACKED), save(2, **PACKED)]
    steps: list[RunStep] = []
    declared = combined(on_disk, ALONG_TIME, policies=POLICIES)
    with pytest.raises(InvalidInputError, match="units are 'degC' and not 'K'") as caught:
        run_archive(declared, after_step=steps.append)
    assert str(paths[1]) in caught.value.message
    assert RunStep.SCANNED in steps
    assert RunStep.PLACED not in steps


def test_a_file_that_would_share_a_chunk_is_refused_with_what_helps(save):
    usual = {**PACKED, "chunksizes": (2, 3, 4)}
    paths = [save(number, fields(number, steps=4), **usual) for number in (0, 2)]
    half = fields(1, steps=4).isel(time=slice(3))
    paths.insert(1, save(1, half, **{**usual, "chunksizes": (1, 6, 8)}))
    placement = planned(scanned(paths), TIME)
    partial_chunk = placement.problems[0]
    assert partial_chunk.kind is ProblemKind.PARTIAL_CHUNK
    assert partial_chunk.files == (f"file://{paths[1]}",)
    assert "on-mismatch: era or set-aside" in partial_chunk.reason


# -- alone, as other processes run it --------------------------------------------------------------


def virtual_sst(paths: list[Path]) -> tuple[VirtualArray, list[ScannedFile]]:
    files = scanned(paths)
    return planned(files, TIME).sections[0].virtual["/sst"], files


def test_what_it_needs_can_be_sent_to_other_processes(save):
    paths = [save(0, **PACKED), save(1, **PACKED), save(2, **FLOATS)]
    array, files = virtual_sst(paths)
    assert array.differing is not None
    assert array.differing_start is not None
    assert array.differing_start.tolist() == [[2, 0, 0]]
    job = partial(
        materialise,
        files[2],
        "/sst",
        array.metadata,
        array.differing_start[0],
        save_chunk=InlineRef,
        read_chunk=reads_with(find_with_environment),
    )
    table = pickle.loads(pickle.dumps(job))()
    assert table.index.tolist() == [[2, 0, 0], [2, 0, 1], [2, 1, 0], [2, 1, 1]]
    assert set(table.kind.tolist()) == {ChunkType.inline}


def test_chunks_of_fill_values_are_left_out(save):
    empty = fields(2)
    empty["sst"][:] = np.nan
    paths = [save(0, **PACKED), save(1, **PACKED), save(2, empty, **FLOATS)]
    array, files = virtual_sst(paths)
    assert array.metadata["fill_value"] == -9999
    assert not len(materialise(files[2], "/sst", array.metadata, (2, 0, 0), save_chunk=InlineRef))


def test_a_file_that_was_changed_is_not_copied(save):
    paths = [save(0, **PACKED), save(1, **PACKED), save(2, **FLOATS)]
    array, files = virtual_sst(paths)
    changed = pickle.loads(pickle.dumps(files[2]))
    for scan in changed.arrays.values():
        if scan.references.last_modified is not None:
            object.__setattr__(
                scan.references, "last_modified", np.full(len(scan.references), 9, np.uint32)
            )
    with pytest.raises(SourceError, match="was changed") as caught:
        materialise(changed, "/sst", array.metadata, (2, 0, 0), save_chunk=InlineRef)
    assert caught.value.kind is ErrorKind.VIRTUAL_CHUNK_MODIFIED


def test_a_place_inside_of_a_chunk_is_refused(save):
    usual = {**PACKED, "chunksizes": (2, 3, 4)}
    paths = [save(number, fields(number, steps=2), **usual) for number in range(3)]
    array, files = virtual_sst(paths)
    with pytest.raises(SourceError, match="would share a chunk of 2"):
        materialise(files[1], "/sst", array.metadata, (1, 0, 0), save_chunk=InlineRef)
