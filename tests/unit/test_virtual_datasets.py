"""Virtual datasets written to a session, from manifests made by hand."""

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.builders import array_of
from virtualizarr.manifests import ChunkManifest, ManifestArray
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH
from virtualizarr.manifests.utils import create_v3_array_metadata

import icestream.virtual
from icestream.errors import (
    AccessError,
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
    StorageError,
)
from icestream.model.chunk_refs import ChunkType, VirtualRef
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig
from icestream.parsers.manifest_columns import ManifestColumns
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ObjectInfo, Version
from icestream.virtual.object_infos import object_infos
from icestream.virtual_datasets import recorded_checksums, write_virtual_dataset

CHUNK = 2
BYTES = 4 * CHUNK
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
LAYOUT: dict[str, Any] = {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}


def manifest_of(
    paths: list[str], inlined: Mapping[tuple[int, ...], bytes] | None = None
) -> ChunkManifest:
    """Return a manifest in which the chunks of a file follow each other."""
    texts: Any = np.array(paths, np.dtypes.StringDType())
    offsets = [BYTES * paths[:i].count(path) for i, path in enumerate(paths)]
    return ChunkManifest.from_arrays(
        paths=texts,
        offsets=np.array(offsets, np.uint64),
        lengths=np.array([BYTES if path else 0 for path in paths], np.uint64),
        inlined=dict(inlined or {}),
    )


def variable_of(
    paths: list[str],
    *,
    attrs: Mapping[str, Any] | None = None,
    dim: str = "x",
    length: int | None = None,
    inlined: Mapping[tuple[int, ...], bytes] | None = None,
    **layout: Any,
) -> xr.Variable:
    """Return a virtual variable of int32 values, two in a chunk."""
    metadata = create_v3_array_metadata(
        **{
            "shape": (CHUNK * len(paths) if length is None else length,),
            "data_type": np.dtype("i4"),
            "chunk_shape": (CHUNK,),
            "fill_value": -1,
            **LAYOUT,
            **layout,
        }
    )
    return xr.Variable((dim,), ManifestArray(metadata, manifest_of(paths, inlined)), attrs)


def dataset_of(paths: list[str], **options: Any) -> xr.Dataset:
    return xr.Dataset({"v": variable_of(paths, **options)})


class Archive:
    """A folder of binary files, and a repository that may read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file://{folder}/"
        config = RepositoryConfig()
        config.set_virtual_chunk_container(
            VirtualChunkContainer(self.url, ObjectStoreConfig.LocalFileSystem(str(folder)))
        )
        self.repo = Repository.create(
            InMemoryStorage(), config, authorize_virtual_chunk_access={self.url: None}
        )
        self.session = self.repo.writable_session("main")

    def file(self, name: str, first: int, chunks: int = 1) -> list[str]:
        """Write a file of so many chunks, and return its URL for each of them."""
        np.arange(first, first + chunks * CHUNK, dtype="<i4").tofile(self.folder / name)
        return [self.url + name] * chunks

    def write(self, dataset: xr.Dataset, **options: Any) -> None:
        write_virtual_dataset(dataset, self.session.store, **options)

    def read(self, path: str = "v") -> list[int]:
        values: list[int] = array_of(self.session, path)[:].tolist()
        return values


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def refs_of(session: Session, path: str = "/v") -> dict[tuple[int, ...], Any]:
    table = session._copy.table(session._copy.get_array(path))
    return {tuple(i): table.ref(row) for row, i in enumerate(table.index.tolist())}


# -- new variables ---------------------------------------------------------------------------------


def test_references_attributes_and_dimensions_are_written(archive: Archive) -> None:
    paths = archive.file("a.bin", 0, 2) + archive.file("b.bin", 4)
    dataset = dataset_of(paths, attrs={"units": "K", "valid": np.array([1, 2])})
    dataset.attrs["title"] = np.str_("test")

    archive.write(dataset, checksums=NOON)

    noon = int(NOON.timestamp())
    assert refs_of(archive.session) == {
        (0,): VirtualRef(paths[0], 0, BYTES, last_modified=noon),
        (1,): VirtualRef(paths[0], BYTES, BYTES, last_modified=noon),
        (2,): VirtualRef(paths[2], 0, BYTES, last_modified=noon),
    }
    array = array_of(archive.session, "v")
    assert array.metadata.dimension_names == ("x",)
    assert array.attrs.asdict() == {"units": "K", "valid": [1, 2]}
    read = xr.open_zarr(archive.session.store, consolidated=False, decode_cf=False)
    assert read.attrs == {"title": "test"}
    assert not read["v"].encoding["compressors"]


def test_missing_chunks_read_as_fill_value_and_inlined_ones_as_their_bytes(
    archive: Archive,
) -> None:
    inlined = np.array([70, 80], "<i4").tobytes()
    paths = [*archive.file("a.bin", 0), "", INLINED_CHUNK_PATH]

    archive.write(dataset_of(paths, inlined={(2,): inlined}), checksums="etag")

    assert archive.read() == [0, 1, -1, -1, 70, 80]
    assert archive.session.chunk_type("v", (1,)) is ChunkType.uninitialized
    assert archive.session.chunk_type("v", (2,)) is ChunkType.inline


def test_a_large_inlined_chunk_becomes_an_object_of_the_repository(archive: Archive) -> None:
    values = np.arange(1000, dtype="<i4")
    variable = variable_of(
        [INLINED_CHUNK_PATH],
        inlined={(0,): values.tobytes()},
        length=1000,
        chunk_shape=(1000,),
    )

    archive.write(xr.Dataset({"v": variable}))

    assert archive.session.chunk_type("v", (0,)) is ChunkType.native
    assert archive.read() == values.tolist()


def test_a_variable_without_any_chunk_is_all_fill_value(archive: Archive) -> None:
    archive.write(dataset_of(["", ""]), checksums="last-modified")

    assert archive.read() == [-1] * 4


def test_a_scalar_is_one_chunk(archive: Archive) -> None:
    np.array([7], "<i4").tofile(archive.folder / "s.bin")
    metadata = create_v3_array_metadata(
        shape=(), data_type=np.dtype("i4"), chunk_shape=(), fill_value=0, **LAYOUT
    )
    entry = {"path": f"{archive.url}s.bin", "offset": 0, "length": 4}
    manifest = ChunkManifest({"0": entry}, shape=())

    archive.write(xr.Dataset({"v": xr.Variable((), ManifestArray(metadata, manifest))}))

    assert array_of(archive.session, "v")[()] == 7


def test_an_empty_dimension_has_no_chunks(archive: Archive) -> None:
    variable = variable_of([], length=0)

    archive.write(xr.Dataset({"v": variable}))

    assert archive.read() == []


def test_chunk_keys_of_other_formats_become_those_of_the_repository(archive: Archive) -> None:
    layout = {"chunk_key_encoding": {"name": "default", "separator": "."}}

    archive.write(dataset_of(archive.file("a.bin", 3), **layout))

    assert archive.read() == [3, 4]


def test_coordinates_are_coordinates_again(archive: Archive) -> None:
    paths = archive.file("a.bin", 0, 2)
    dataset = dataset_of(paths).assign_coords(
        lat=variable_of(paths), name=("x", list("abcd")), x=[10, 20, 30, 40]
    )

    archive.write(dataset)

    read = xr.open_zarr(archive.session.store, consolidated=False)
    assert set(read.coords) == {"lat", "name", "x"}
    assert set(read.indexes) == {"x"}
    assert read["name"].values.tolist() == list("abcd")


def test_a_group_is_made_with_its_parents_and_may_hold_other_variables(archive: Archive) -> None:
    one = dataset_of(archive.file("a.bin", 0)).assign_coords(x=[0, 1])
    two = xr.Dataset({"w": variable_of(archive.file("b.bin", 5), dim="y")})
    two = two.assign_coords(lon=variable_of(archive.file("b.bin", 5), dim="y"))

    archive.write(one.assign_attrs(first=1), group="model/run")
    archive.write(two.assign_attrs(second=2), group="/model/run")

    read = xr.open_zarr(archive.session.store, group="model/run", consolidated=False)
    assert set(read.variables) == {"v", "w", "x", "lon"}
    assert set(read.coords) == {"x", "lon"}
    assert read.attrs == {"first": 1, "second": 2}


@pytest.mark.parametrize("where", ["attrs", "encoding"])
def test_fill_values_are_encoded_for_xarray(archive: Archive, where: str) -> None:
    np.array([1.5, -99], "<f4").tofile(archive.folder / "f.bin")
    variable = variable_of([f"{archive.url}f.bin"], data_type=np.dtype("f4"))
    getattr(variable, where).update({"_FillValue": np.float32(-99), "scale_factor": 2.0})

    archive.write(xr.Dataset({"v": variable}))

    read = xr.open_zarr(archive.session.store, consolidated=False)["v"].values
    assert read.tolist() == pytest.approx([3.0, np.nan], nan_ok=True)


def test_loaded_variables_may_be_lazy(archive: Archive) -> None:
    dataset = dataset_of(archive.file("a.bin", 0, 2))
    dataset["lazy"] = xr.DataArray(np.arange(4.0), dims="x").chunk(x=2)

    archive.write(dataset)

    read = xr.open_zarr(archive.session.store, consolidated=False)
    assert read["lazy"].values.tolist() == [0, 1, 2, 3]


# -- locations and checksums -----------------------------------------------------------------------


def test_a_protocol_takes_the_place_of_the_scheme(archive: Archive) -> None:
    paths = ["s3://bucket/a.nc", "gs://bucket/b.nc"]

    archive.write(dataset_of(paths), protocol="modela", checksums=None, validate_containers=False)

    assert [ref.location for ref in refs_of(archive.session).values()] == [
        "modela://bucket/a.nc",
        "modela://bucket/b.nc",
    ]


@pytest.mark.parametrize("protocol", ["", "a b", "modela:/", "1model"])
def test_a_protocol_that_is_no_scheme_is_refused(archive: Archive, protocol: str) -> None:
    with pytest.raises(InvalidInputError, match="protocol"):
        archive.write(dataset_of(["s3://b/a"]), protocol=protocol)


def test_etags_are_those_of_the_files(archive: Archive) -> None:
    paths = [*archive.file("a.bin", 0, 2), "", *archive.file("b.bin", 4)]

    archive.write(dataset_of(paths), checksums="etag")

    resolve = archive.session._copy.context.reader.resolve
    infos = object_infos(resolve, {paths[0], paths[3]})
    assert [ref.etag for ref in refs_of(archive.session).values()] == [
        infos[path].version.etag for path in paths if path
    ]


def test_times_are_recorded_as_the_next_full_second(archive: Archive) -> None:
    """Icechunk compares with fractions: the second before would be a change."""
    [path] = archive.file("a.bin", 0)
    os.utime(archive.folder / "a.bin", (1_600_000_000.25, 1_600_000_000.25))
    [whole] = archive.file("b.bin", 0)
    os.utime(archive.folder / "b.bin", (1_600_000_000, 1_600_000_000))

    archive.write(dataset_of([path, whole]), checksums="last-modified")

    recorded = [ref.last_modified for ref in refs_of(archive.session).values()]
    assert recorded == [1_600_000_001, 1_600_000_000]
    assert archive.read() == [0, 1, 0, 1]


def test_nothing_is_recorded_on_request(archive: Archive) -> None:
    archive.write(dataset_of(["s3://bucket/gone.nc"]), checksums=None)

    assert refs_of(archive.session) == {(0,): VirtualRef("s3://bucket/gone.nc", 0, BYTES)}


@pytest.mark.parametrize("checksums", ["md5", 7, datetime(2020, 1, 1)])  # noqa: DTZ001  refused
def test_other_checksums_are_refused(archive: Archive, checksums: Any) -> None:
    with pytest.raises(InvalidInputError, match="checksum"):
        archive.write(dataset_of(archive.file("a.bin", 0)), checksums=checksums)


def test_every_file_is_asked_for_once(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(resolve: Any, locations: Any) -> dict[str, ObjectInfo]:
        asked.extend(locations)
        return object_infos(resolve, asked)

    monkeypatch.setattr(recorded_checksums, "object_infos", counted)
    paths = archive.file("a.bin", 0, 3) + archive.file("b.bin", 6, 3)
    dataset = xr.Dataset({"v": variable_of(paths), "w": variable_of(paths[::-1])})

    archive.write(dataset, checksums="etag")

    assert sorted(asked) == sorted(set(paths))


@pytest.mark.parametrize(
    ("checksums", "words"), [("etag", "names no ETag"), ("last-modified", "no time of change")]
)
def test_a_store_that_does_not_tell_is_a_fault(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, checksums: Any, words: str
) -> None:
    silent = ObjectInfo("a.bin", 8, datetime.fromtimestamp(0, UTC), Version())
    monkeypatch.setattr(
        recorded_checksums, "object_infos", lambda _, locations: dict.fromkeys(locations, silent)
    )

    with pytest.raises(StorageError, match=words) as raised:
        archive.write(dataset_of(archive.file("a.bin", 0)), checksums=checksums)

    assert raised.value.kind is ErrorKind.PRECONDITIONS_IGNORED
    assert not archive.session.has_uncommitted_changes


# -- appending -------------------------------------------------------------------------------------


def test_appending_grows_the_arrays_that_have_the_dimension(archive: Archive) -> None:
    lat = variable_of(archive.file("lat.bin", 50), dim="y")
    first = dataset_of(archive.file("a.bin", 0, 2)).assign_coords(x=[0, 1, 2, 3], lat=lat)
    then = dataset_of([*archive.file("b.bin", 4), ""]).assign_coords(x=[4, 5, 6, 7])
    archive.write(first.assign_attrs(title="one", history="made"))

    archive.write(then.assign_attrs(title="two"), append_dim="x")

    assert archive.read() == [0, 1, 2, 3, 4, 5, -1, -1]
    assert archive.read("x") == [*range(8)]
    read = xr.open_zarr(archive.session.store, consolidated=False)
    assert read.attrs == {"title": "two", "history": "made"}
    assert set(read.coords) == {"x", "lat"}


def test_appending_works_on_what_was_committed(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0, 2)))
    archive.session.commit("first")
    archive.session = archive.repo.writable_session("main")

    archive.write(dataset_of(archive.file("b.bin", 4)), append_dim="x")

    assert archive.read() == [*range(6)]
    assert len(refs_of(archive.session)) == 3


def test_appending_overwrites_variables_without_the_dimension(archive: Archive) -> None:
    first = xr.Dataset(
        {
            "v": variable_of(archive.file("a.bin", 0)),
            "w": variable_of(archive.file("w.bin", 0, 2), dim="y"),
            "loaded": ("y", [1, 2, 3, 4]),
        }
    )
    then = xr.Dataset(
        {
            "v": variable_of(archive.file("b.bin", 2)),
            "w": variable_of([*archive.file("w2.bin", 8), ""], dim="y"),
            "loaded": ("y", [5, 6, 7, 8]),
            "new": variable_of(archive.file("new.bin", 9), dim="z"),
        }
    )
    archive.write(first)

    archive.write(then, append_dim="x")

    assert archive.read() == [0, 1, 2, 3]
    assert archive.read("w") == [8, 9, -1, -1]
    assert archive.read("loaded") == [5, 6, 7, 8]
    assert archive.read("new") == [9, 10]


def test_inlined_chunks_are_appended_too(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0)))
    inlined = np.array([2, 3], "<i4").tobytes()

    archive.write(dataset_of([INLINED_CHUNK_PATH], inlined={(0,): inlined}), append_dim="x")

    assert archive.read() == [0, 1, 2, 3]


UNLIKE: dict[str, dict[str, Any]] = {
    "dtype": {"data_type": np.dtype("u4"), "fill_value": 1},
    "chunk shape": {"chunk_shape": (1,), "length": 1},
    "codecs": {
        "codecs": [*LAYOUT["codecs"], {"name": "gzip", "configuration": {"level": 1}}],
    },
    "fill value": {"fill_value": 0},
    "attribute 'units'": {"attrs": {"units": "days since 2000-01-03", "calendar": "standard"}},
    "attribute 'calendar'": {"attrs": {"units": "days since 2000-01-01"}},
    "attribute 'scale_factor'": {
        "attrs": {
            "units": "days since 2000-01-01",
            "calendar": "standard",
            "scale_factor": 0.5,
        }
    },
}


@pytest.mark.parametrize("what", UNLIKE)
@pytest.mark.parametrize("where", [{"append_dim": "x"}, {"region": {"x": slice(0, 2)}}])
def test_chunks_that_would_be_read_wrongly_are_refused(
    archive: Archive, what: str, where: Any
) -> None:
    attrs = {"units": "days since 2000-01-01", "calendar": "standard", "note": "any"}
    archive.write(dataset_of(archive.file("a.bin", 0), attrs=attrs).assign_coords(x=[0, 1]))
    before = refs_of(archive.session)
    options = {"attrs": {**attrs, "note": "another"}} | UNLIKE[what]
    dataset = dataset_of(archive.file("b.bin", 2), **options)
    dataset = dataset.assign_coords(x=range(dataset.sizes["x"]))

    with pytest.raises(InvalidInputError, match="'v' has another") as raised:
        archive.write(dataset, **where)

    assert what in str(raised.value)
    assert raised.value.kind is ErrorKind.INVALID_ARRAY_METADATA
    assert refs_of(archive.session) == before
    assert archive.read("x") == [0, 1]


def test_other_dimensions_are_refused(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0)))

    with pytest.raises(InvalidInputError, match="another dimensions"):
        archive.write(dataset_of(archive.file("b.bin", 2), dim="y"), append_dim="y")


def test_nothing_is_appended_behind_a_chunk_that_is_not_full(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0, 2), length=3))

    with pytest.raises(InvalidInputError, match="whole chunks of 2") as raised:
        archive.write(dataset_of(archive.file("b.bin", 3)), append_dim="x")

    assert raised.value.kind is ErrorKind.INVALID_CHUNK_INDEX
    assert archive.read() == [0, 1, 2]


def test_the_last_chunk_may_be_partly_used(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0)))

    archive.write(dataset_of(archive.file("b.bin", 2, 2), length=3), append_dim="x")

    assert archive.read() == [0, 1, 2, 3, 4]


# -- regions ---------------------------------------------------------------------------------------


@pytest.fixture
def filled(archive: Archive) -> Archive:
    archive.write(
        dataset_of(archive.file("a.bin", 0, 4)).assign_coords(
            x=[10, 11, 12, 13, 14, 15, 16, 17], c=("x", np.arange(8))
        )
    )
    return archive


@pytest.mark.parametrize("region", [{"x": slice(2, 6)}, {"x": "auto"}, "auto"])
def test_a_region_is_replaced(filled: Archive, region: Any) -> None:
    part = dataset_of([*filled.file("b.bin", 20), ""]).assign_coords(
        x=[12, 13, 14, 15], c=("x", [92, 93, 94, 95])
    )

    filled.write(part.assign_attrs(ignored=1), region=region)

    assert filled.read() == [0, 1, 20, 21, -1, -1, 6, 7]
    assert filled.read("c") == [0, 1, 92, 93, 94, 95, 6, 7]
    assert filled.read("x") == [*range(10, 18)]
    assert xr.open_zarr(filled.session.store, consolidated=False).attrs == {}


@pytest.mark.parametrize(
    ("region", "chunks", "words"),
    [
        ({"x": slice(1, 5)}, 2, "whole chunks"),
        ({"x": slice(2, 7)}, 2, "has 4 values along x, and its place has 5"),
        ({"x": slice(6, 10)}, 2, "its place has 2"),
        ({"y": slice(0, 4)}, 2, "the region does not fit"),
        ({"x": slice(0, 4, 2)}, 2, "the region does not fit"),
        ("somewhere", 2, "the region does not fit"),
    ],
)
def test_a_region_that_does_not_fit_is_refused(
    filled: Archive, region: Any, chunks: int, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        filled.write(dataset_of(filled.file("b.bin", 20, chunks)), region=region)

    assert filled.read() == [*range(8)]


def test_a_region_may_end_with_the_array(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0, 2), length=3))

    archive.write(dataset_of(archive.file("b.bin", 20), length=1), region={"x": slice(2, 3)})

    assert archive.read() == [0, 1, 20]


def test_a_partly_used_chunk_in_the_middle_is_refused(filled: Archive) -> None:
    """What is behind its end in the file would show."""
    with pytest.raises(InvalidInputError, match="whole chunks"):
        filled.write(dataset_of(filled.file("b.bin", 20), length=1), region={"x": slice(2, 3)})


# -- faults ----------------------------------------------------------------------------------------


def test_what_is_there_is_not_replaced(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0)))

    with pytest.raises(AlreadyExistsError, match="append_dim or region"):
        archive.write(dataset_of(archive.file("b.bin", 5)))

    assert archive.read() == [0, 1]


@pytest.mark.parametrize("options", [{"append_dim": "x"}, {"region": {"x": slice(0, 2)}}])
@pytest.mark.parametrize("group", [None, "nowhere"])
def test_nothing_can_be_added_to_what_is_not_there(
    archive: Archive, options: Any, group: str | None
) -> None:
    archive.write(xr.Dataset({"other": variable_of(archive.file("a.bin", 0))}))

    with pytest.raises(NodeNotFoundError):
        archive.write(dataset_of(archive.file("a.bin", 0)), group=group, **options)

    assert "nowhere" not in {node.path for node in archive.session._copy.nodes.nodes()}


def test_locations_without_container_are_refused_before_any_request(archive: Archive) -> None:
    dataset = dataset_of(["ftp://nowhere.example/a.nc"])

    with pytest.raises(InvalidInputError, match=r"ftp://nowhere\.example/a\.nc") as raised:
        archive.write(dataset, checksums="etag")

    assert raised.value.kind is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    assert not archive.session.has_uncommitted_changes
    archive.write(dataset, checksums=None, validate_containers=False)


def test_checksums_need_consent(archive: Archive) -> None:
    with pytest.raises(AccessError, match="authorize_virtual_chunk_access"):
        archive.write(dataset_of(["s3://bucket/a.nc"]), checksums="etag")

    assert not archive.session.has_uncommitted_changes


def test_a_file_that_is_gone_is_a_fault(archive: Archive) -> None:
    with pytest.raises(StorageError, match=r"gone\.bin is not there"):
        archive.write(dataset_of([f"{archive.url}gone.bin"]))

    assert not archive.session.has_uncommitted_changes


def faulty_datasets() -> dict[str, tuple[xr.Dataset, dict[str, Any]]]:
    fine = dataset_of(["s3://bucket/a.nc"])
    wrong_grid = xr.Dataset({"v": variable_of(["s3://b/a", "s3://b/a"], length=2)})
    odd = dataset_of(["s3://bucket/a.nc"], attrs={"made": object()})
    odd_fill = dataset_of(["s3://bucket/a.nc"], attrs={"_FillValue": b"text"})
    unwritable = fine.assign(loaded=("x", np.array([object(), object()])))
    return {
        "is not a dimension": (fine, {"append_dim": "time"}),
        "append_dim or region, not both": (fine, {"append_dim": "x", "region": "auto"}),
        "manifest of": (wrong_grid, {}),
        "attributes of the variable 'v'": (odd, {}),
        "the variable 'v' cannot": (odd_fill, {}),
        "the loaded variables cannot be written": (unwritable, {}),
    }


@pytest.mark.parametrize("words", faulty_datasets())
def test_a_fault_leaves_the_session_as_it_was(archive: Archive, words: str) -> None:
    dataset, options = faulty_datasets()[words]

    with pytest.raises(InvalidInputError, match=words):
        archive.write(dataset, **{"checksums": None, **options})

    assert not archive.session.has_uncommitted_changes


def test_a_fault_in_the_middle_of_writing_leaves_the_session_as_it_was(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0)).assign_coords(x=[0, 1]))
    before = archive.session.status()

    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr("icestream.zarr_store.virtual_methods.grid_index", fail)
    with pytest.raises(StorageError, match="disk is full"):
        archive.write(dataset_of(archive.file("b.bin", 2)).assign_coords(x=[2, 3]), append_dim="x")

    assert archive.session.status() == before
    assert archive.read("x") == [0, 1]


def test_only_stores_that_can_be_written_are_written(archive: Archive) -> None:
    reader = archive.repo.readonly_session("main")
    rearrange = archive.repo.rearrange_session("main")

    with pytest.raises(ReadOnlyError):
        write_virtual_dataset(dataset_of(["s3://b/a"]), reader.store)
    with pytest.raises(SessionStateError, match="only moves"):
        write_virtual_dataset(dataset_of(["s3://b/a"]), rearrange.store, checksums=None)
    with pytest.raises(InvalidInputError, match=r"writable_session\(branch\)\.store"):
        write_virtual_dataset(dataset_of(["s3://b/a"]), archive.session)  # type: ignore[arg-type]  # refused
    with pytest.raises(InvalidInputError, match="Dataset"):
        write_virtual_dataset(xr.DataArray([1]), archive.session.store)  # type: ignore[arg-type]  # refused


def test_what_other_threads_write_meanwhile_is_kept(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = archive.file("a.bin", 0)
    archive.write(dataset_of(a), group="one")
    archive.write(dataset_of(a), group="two")
    b, c = archive.file("b.bin", 2), archive.file("c.bin", 2)
    nested: list[bool] = []

    def interrupted(resolve: Any, locations: Any) -> dict[str, ObjectInfo]:
        if not nested:
            nested.append(True)
            archive.write(dataset_of(c), group="two", append_dim="x")
        return object_infos(resolve, locations)

    monkeypatch.setattr(recorded_checksums, "object_infos", interrupted)
    archive.write(dataset_of(b), group="one", append_dim="x")

    assert archive.read("one/v") == [0, 1, 2, 3]
    assert archive.read("two/v") == [0, 1, 2, 3]


def test_forks_are_written_like_sessions(archive: Archive) -> None:
    archive.write(dataset_of(archive.file("a.bin", 0)))
    fork = archive.session.fork()

    write_virtual_dataset(dataset_of(archive.file("b.bin", 2)), fork.store, append_dim="x")
    archive.session.merge(fork)

    assert archive.read() == [0, 1, 2, 3]


# -- columns ---------------------------------------------------------------------------------------


def test_columns_hold_each_location_once() -> None:
    columns = ManifestColumns.of(
        manifest_of(["s3://b/a", "s3://b/a", "", "s3://b/c", INLINED_CHUNK_PATH, "s3://b/a"])
    )

    assert columns.distinct_locations.to_pylist() == ["s3://b/a", "s3://b/c"]
    assert columns.locations.to_pylist() == [
        *["s3://b/a"] * 2,
        None,
        "s3://b/c",
        None,
        "s3://b/a",
    ]


def test_a_million_references_take_no_time_per_chunk() -> None:
    paths = np.full((1000, 1000), "s3://bucket/a.nc", np.dtypes.StringDType())
    numbers = np.ones(paths.shape, np.uint64)
    manifest = ChunkManifest.from_arrays(
        paths=paths, offsets=numbers, lengths=numbers, validate_paths=False
    )

    columns = ManifestColumns.of(manifest, "modela")

    assert columns.distinct_locations.to_pylist() == ["modela://bucket/a.nc"]
    assert len(columns.locations) == paths.size
    assert not columns.missing().any()


# -- the name --------------------------------------------------------------------------------------


def test_the_function_is_found_in_the_package_of_virtual_chunks() -> None:
    assert icestream.virtual.write_virtual_dataset is write_virtual_dataset
    assert "write_virtual_dataset" in dir(icestream.virtual)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = icestream.virtual.no_such_name


def test_xarray_is_loaded_when_the_function_is_asked_for() -> None:
    code = (
        "import sys, icestream.virtual\n"
        "assert not {'xarray', 'virtualizarr', 'zarr'} & sys.modules.keys()\n"
        "icestream.virtual.write_virtual_dataset\n"
        "assert {'xarray', 'virtualizarr'} <= sys.modules.keys()\n"
        "assert not {'icechunk'} & sys.modules.keys()\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  our own code
