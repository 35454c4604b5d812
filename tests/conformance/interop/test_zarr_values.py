"""Hierarchies written through zarr: equal in zarr's memory store, here, and in icechunk.

Each scenario edits a hierarchy in steps; a commit follows each step. Afterwards every key of the
store, metadata and chunks alike, holds the same bytes as in zarr's own memory store, whoever wrote
the repository and whoever reads it.
"""

import gzip
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import icestream
from icestream.codec.manifests import decode_manifest
from icestream.model.chunk_refs import NativeRef, VirtualRef
from icestream.model.ids import id_text
from icestream.repository.session import Session

Step = Callable[[Any], object]

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

STRUCTURED = np.dtype([("x", "<i4"), ("y", "<f8")])


def _data(*shape: int, dtype: str = "f8") -> Any:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def _create(name: str, data: Any, **options: Any) -> Step:
    def step(root: Any) -> None:
        values = np.asarray(data)
        options.setdefault("dtype", values.dtype)
        root.create_array(name, shape=values.shape, **options)[...] = values

    return step


def _empty(name: str, shape: tuple[int, ...], **options: Any) -> Step:
    return lambda root: root.create_array(name, shape=shape, **options)


def _assign(name: str, selection: Any, value: Any) -> Step:
    return lambda root: root[name].__setitem__(selection, value)


def _rectilinear(root: Any) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        root.create_array("r", shape=(10, 6), chunks=[[3, 3, 4], [1, 5]], dtype="f8")[:] = _data(
            10, 6
        )


SCENARIOS: dict[str, list[Step]] = {
    "scalar": [_create("a", 5.5), _assign("a", ..., 7.25)],
    "scalar never written": [_empty("a", (), dtype="i4", fill_value=3)],
    "one dimension": [_create("a", _data(10), chunks=(3,))],
    "two dimensions": [_create("a", _data(5, 7), chunks=(2, 3))],
    "five dimensions": [_create("a", _data(2, 3, 2, 3, 2), chunks=(1, 2, 1, 2, 1))],
    "zero length": [_create("a", _data(0), chunks=(4,)), _create("b", _data(3, 0), chunks=(1, 1))],
    "zero length that grows": [
        _empty("a", (0, 2), chunks=(2, 2), dtype="i4", fill_value=-1),
        lambda root: root["a"].append(np.ones((3, 2), "i4")),
    ],
    "inline and native": [
        _create("small", _data(4), chunks=(2,)),
        _create("large", _data(4000), chunks=(1000,), compressors=None),
    ],
    "at the inline threshold": [
        _create("a", np.arange(512, dtype="u1"), chunks=(512,), compressors=None),
        _create("b", np.arange(513).astype("u1"), chunks=(513,), compressors=None),
    ],
    "fill values": [
        _create("nan", np.full(4, np.nan), chunks=(2,), fill_value=np.nan),
        _create("inf", np.array([1.0, -np.inf]), chunks=(1,), fill_value=-np.inf),
        _empty("untouched", (3,), chunks=(1,), dtype="i2", fill_value=-5),
        _assign("untouched", 1, 9),
    ],
    "dtypes": [
        _create("bool", np.array([True, False, True]), chunks=(2,)),
        _create("complex", np.array([1 + 2j, 3j]), chunks=(1,)),
        _create("big_endian", np.arange(3, dtype=">i4"), chunks=(2,)),
        _create("time", np.array(["2020-01-01", "NaT"], "M8[s]"), chunks=(1,)),
        _create("delta", np.array([1, 2], "m8[ms]"), chunks=(1,)),
        _create("float16", np.array([1, 2], "f2"), chunks=(1,)),
    ],
    "texts": [
        _create("variable", np.array(["a", "", "ccc ü"], object), chunks=(2,), dtype="string"),
        _create("fixed", np.array(["ab", "c"], "U4"), chunks=(1,)),
        _create("bytes", np.array([b"ab", b"c"], "S4"), chunks=(1,)),
    ],
    "structured": [_create("a", np.array([(1, 2.5), (3, 4.5)], STRUCTURED), chunks=(1,))],
    "sharded": [
        _create("a", _data(20, 20), chunks=(2, 5), shards=(10, 10)),
        _assign("a", (slice(3, 5), slice(0, 7)), -1),
    ],
    "codecs": [
        _create("zstd", _data(50), chunks=(25,), compressors=ZstdCodec(level=5)),
        _create("blosc", _data(50), chunks=(25,), compressors=BloscCodec(cname="lz4")),
        _create("gzip", _data(50), chunks=(25,), compressors=[GzipCodec(), Crc32cCodec()]),
        _create("transposed", _data(4, 6), chunks=(2, 3), filters=[TransposeCodec(order=(1, 0))]),
    ],
    "rectilinear": [_rectilinear],
    "groups": [
        lambda root: root.create_group("a/b/c", attributes={"x": [1, None, "ü"]}),
        _create("a/b/data", _data(4), chunks=(2,), dimension_names=["time"]),
        lambda root: root["a/b"].attrs.update({"note": {"deep": 1}}),
        lambda root: root.attrs.update({"title": "root"}),
    ],
    "dimension names": [
        _empty("some", (2, 3), dtype="i4", chunks=(1, 1), dimension_names=["x", None]),
        _empty("none", (2, 3), dtype="i4", chunks=(1, 1)),
    ],
    "names": [
        _create(name, _data(2), chunks=(1,)) for name in ("c", "0", "a-b", "a b", "ü", "a.b")
    ],
    "overwritten": [
        _create("a", _data(8), chunks=(2,)),
        _create("a", _data(3, 3) + 100, chunks=(3, 1), overwrite=True),
    ],
    "deleted and created again": [
        _create("g/a", _data(8), chunks=(2,)),
        lambda root: root.__delitem__("g"),
        _empty("g/a", (8,), chunks=(2,), dtype="f8", fill_value=9),
    ],
    "resized down and up": [
        _create("a", _data(10, 10), chunks=(3, 3)),
        lambda root: root["a"].resize((4, 10)),
        lambda root: root["a"].resize((10, 12)),
        _assign("a", (slice(8, 10), slice(10, 12)), -7),
    ],
    "resized down and up in one commit": [
        _create("a", _data(10), chunks=(1,)),
        lambda root: (root["a"].resize((3,)), root["a"].resize((10,))),
    ],
    "appended": [
        _create("a", _data(4, 3), chunks=(2, 3)),
        lambda root: root["a"].append(_data(3, 3) + 50),
        lambda root: root["a"].append(_data(2, 3) + 90),
    ],
    "chunks written twice and cleared": [
        _create("a", _data(6) + 1, chunks=(2,), fill_value=0),
        _assign("a", slice(0, 3), 5),
        _assign("a", slice(2, 4), 0),
    ],
    "everything replaced": [
        _create("a", _data(4), chunks=(2,)),
        lambda root: zarr.open_group(root.store, mode="w").create_array("b", data=_data(3)),
    ],
}


def _write(step: Step, store: Any) -> None:
    step(zarr.open_group(store, mode="a"))


def _contents(store: Any) -> dict[str, bytes]:
    """Every key of a store with its value."""

    async def read() -> dict[str, Any]:
        prototype = default_buffer_prototype()
        return {key: await store.get(key, prototype) async for key in store.list()}

    return {key: value.to_bytes() for key, value in sync(read()).items()}


def _history(steps: list[Step]) -> Iterator[tuple[Step, dict[str, bytes]]]:
    """Each step, and what zarr's own store holds after it."""
    model = MemoryStore()
    for step in steps:
        _write(step, model)
        yield step, _contents(model)


@pytest.fixture(autouse=True)
def _quiet_peer() -> None:
    icechunk.set_logs_filter("error")


@pytest.fixture(autouse=True)
def _same_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gzip notes when it was: the same bytes come out only within one second."""
    monkeypatch.setattr(gzip, "time", SimpleNamespace(time=lambda: 1_700_000_000))


def _create_repository(library: Any, folder: Path) -> Any:
    return library.Repository.create(library.local_filesystem_storage(str(folder)))


def _reader(library: Any, folder: Path) -> Any:
    repo = library.Repository.open(library.local_filesystem_storage(str(folder)))
    return repo.readonly_session("main").store


@pytest.mark.parametrize("writer", [icestream, icechunk], ids=lambda library: library.__name__)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_key_holds_the_same_bytes(tmp_path: Path, writer: Any, scenario: str) -> None:
    repo = _create_repository(writer, tmp_path)
    for step, expected in _history(SCENARIOS[scenario]):
        session = repo.writable_session("main")
        _write(step, session.store)
        assert _contents(session.store) == expected
        session.commit("step")

        for reader in (icestream, icechunk):
            assert _contents(_reader(reader, tmp_path)) == expected


@pytest.mark.parametrize("scenario", [name for name, steps in SCENARIOS.items() if len(steps) > 1])
def test_libraries_may_take_turns(tmp_path: Path, scenario: str) -> None:
    _create_repository(icechunk, tmp_path)
    for turn, (step, expected) in enumerate(_history(SCENARIOS[scenario])):
        library: Any = icestream if turn % 2 else icechunk
        repo = library.Repository.open(library.local_filesystem_storage(str(tmp_path)))
        session = repo.writable_session("main")
        _write(step, session.store)
        session.commit(library.__name__)

        for reader in (icestream, icechunk):
            assert _contents(_reader(reader, tmp_path)) == expected


@pytest.mark.parametrize("writer", [icestream, icechunk], ids=lambda library: library.__name__)
def test_values_are_equal(tmp_path: Path, writer: Any) -> None:
    """The same bytes are the same values; one look through zarr all the same."""
    repo = _create_repository(writer, tmp_path)
    session = repo.writable_session("main")
    for step in SCENARIOS["texts"] + SCENARIOS["sharded"]:
        _write(step, session.store)
    session.commit("all")

    expected = _data(20, 20)
    expected[3:5, :7] = -1
    for reader in (icestream, icechunk):
        root: Any = zarr.open_group(_reader(reader, tmp_path), mode="r")
        assert root["variable"][:].tolist() == ["a", "", "ccc ü"]
        assert root["fixed"][:].tolist() == ["ab", "c"]
        np.testing.assert_array_equal(root["a"][:], expected)


# -- virtual references --------------------------------------------------------------------------


def _container(library: Any) -> Any:
    options = library.s3_store(region="us-east-1")
    return library.VirtualChunkContainer("s3://bucket/", options)


def _virtual_repository(library: Any, folder: Path) -> Any:
    config = library.RepositoryConfig.default()
    config.set_virtual_chunk_container(_container(library))
    storage = library.local_filesystem_storage(str(folder))
    repo = library.Repository.create(storage, config=config)
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    root.create_array("a", shape=(40, 50), chunks=(1, 1), dtype="f4")
    root.create_array("mixed", shape=(600,), chunks=(200,), dtype="f8", compressors=None)
    root.create_array("scalar", shape=(), dtype="f4")
    session.commit("arrays")
    return repo


def _write_references(library: Any, repo: Any) -> dict[tuple[int, ...], VirtualRef]:
    """Set references in every way that both libraries have; return those of /a."""
    session = repo.writable_session("main")
    store, moment = session.store, _moment()
    n = 30 * 50
    locations = [f"s3://bucket/file-{i // 100}.nc" for i in range(n)]
    offsets, lengths = np.arange(n, dtype="u8") * 1000, np.arange(1, n + 1, dtype="u8")
    store.set_virtual_refs_arr("a", (30, 50), locations, offsets, lengths, checksum="tag")
    store.set_virtual_refs_arr(
        "a", (1, 2), ["s3://bucket/x", ""], offsets[:2], lengths[:2], arr_offset=(35, 7)
    )
    store.set_virtual_refs(
        "/a",
        [
            library.VirtualChunkSpec([39, 0], "s3://bucket/y", 2**40, 7, etag_checksum="y"),
            library.VirtualChunkSpec(
                [39, 1], "s3://bucket/z", 8, 9, last_updated_at_checksum=moment
            ),
        ],
    )
    store.set_virtual_ref("a/c/39/49", "s3://bucket/v", offset=1, length=2, checksum=moment)
    store.set_virtual_ref("scalar/c", "s3://bucket/scalar", offset=0, length=4)
    mixed: Any = zarr.open_array(store, path="mixed", mode="r+")
    mixed[:200] = 1.5
    store.set_virtual_ref("mixed/c/1", "s3://bucket/w", offset=3, length=1600)
    session.commit("references")

    seconds = int(moment.timestamp())
    refs: dict[tuple[int, ...], VirtualRef] = {
        divmod(i, 50): VirtualRef(locations[i], i * 1000, i + 1, etag="tag") for i in range(n)
    }
    return refs | {
        (35, 7): VirtualRef("s3://bucket/x", 0, 1),
        (39, 0): VirtualRef("s3://bucket/y", 2**40, 7, etag="y"),
        (39, 1): VirtualRef("s3://bucket/z", 8, 9, last_modified=seconds),
        (39, 49): VirtualRef("s3://bucket/v", 1, 2, last_modified=seconds),
    }


def _moment() -> Any:
    return datetime(2024, 2, 29, 12, tzinfo=UTC)


def _rows(store: Any, path: str) -> list[tuple[Any, ...]]:
    """What a library says about the chunks of an array, native ids left out."""

    async def read() -> list[Any]:
        return [batch async for batch in store.array_chunk_iterator(path)]

    rows = []
    for coordinates, kinds, paths, offsets, lengths, inlined in sync(read()):
        for row, index in enumerate(coordinates.tolist()):
            place = paths[row] if kinds[row] == 2 else ""
            numbers = int(kinds[row]), int(offsets[row]), int(lengths[row])
            rows.append((tuple(index), *numbers, place, inlined.get(row)))
    return sorted(rows, key=lambda row: row[0])


def _committed_refs(folder: Path, path: str) -> dict[tuple[int, ...], Any]:
    """The references of an array as its manifests hold them, decoded here."""
    repo = icestream.Repository.open(icestream.local_filesystem_storage(str(folder)))
    session: Session = repo.readonly_session("main")
    array = session._copy.get_array(path)
    refs: dict[tuple[int, ...], Any] = {}
    for manifest_ref in array.manifests:
        name = f"manifests/{id_text(manifest_ref.manifest_id)}"
        manifest = decode_manifest((folder / name).read_bytes(), name=name)
        table = manifest.arrays[array.id]
        refs |= {tuple(i): table.ref(row) for row, i in enumerate(table.index.tolist())}
    return refs


@pytest.mark.parametrize("writer", [icestream, icechunk], ids=lambda library: library.__name__)
def test_references_are_the_same_for_both(tmp_path: Path, writer: Any) -> None:
    expected = _write_references(writer, _virtual_repository(writer, tmp_path))

    ours, theirs = _reader(icestream, tmp_path), _reader(icechunk, tmp_path)
    for path in ("a", "mixed", "scalar"):
        assert _rows(ours, path) == _rows(theirs, path)
    assert [(row[0], row[4], row[2], row[3]) for row in _rows(theirs, "a")] == [
        (index, ref.location, ref.byte_offset, ref.length)
        for index, ref in sorted(expected.items())
    ]
    assert _committed_refs(tmp_path, "/a") == expected
    mixed = _committed_refs(tmp_path, "/mixed")
    assert isinstance(mixed[0,], NativeRef)
    assert mixed[1,] == VirtualRef("s3://bucket/w", 3, 1600)


@pytest.mark.parametrize("writer", [icestream, icechunk], ids=lambda library: library.__name__)
def test_sessions_say_the_same_about_references(tmp_path: Path, writer: Any) -> None:
    _write_references(writer, _virtual_repository(writer, tmp_path))
    sessions = [_reader(library, tmp_path).session for library in (icestream, icechunk)]

    async def coordinates(session: Any, path: str) -> list[tuple[int, ...]]:
        return sorted([tuple(c) async for c in session.chunk_coordinates(path)])

    locations = [sorted(session.all_virtual_chunk_locations()) for session in sessions]
    assert locations[0] == locations[1]
    for path in ("/a", "/mixed", "/scalar"):
        listed = [sync(coordinates(session, path)) for session in sessions]
        assert listed[0] == listed[1]
    for path, index in (("/a", [0, 0]), ("/a", [38, 0]), ("/mixed", [0]), ("/scalar", [])):
        kinds = [int(session.chunk_type(path, index)) for session in sessions]
        assert kinds[0] == kinds[1]
