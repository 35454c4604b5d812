import asyncio
import inspect
from datetime import UTC, datetime
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import pytest
import zarr
from tests.builders import repository

from icestream.errors import (
    AccessError,
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from icestream.model.chunk_refs import ChunkType, VirtualRef
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.repository.session import Session
from icestream.zarr_store.store import IcestreamStore

URL = "s3://bucket/file.nc"
GRID = (2, 3)


@pytest.fixture
def session() -> Session:
    config = RepositoryConfig.default()
    config.set_virtual_chunk_container(
        VirtualChunkContainer("s3://bucket/", ObjectStoreConfig.S3(S3Options(region="eu")))
    )
    session = repository(config=config).writable_session("main")
    group = zarr.create_group(session.store)
    group.create_array("a", shape=(4, 6), chunks=(2, 2), dtype="f4")
    group.create_array("scalar", shape=(), dtype="f4")
    return session


@pytest.fixture
def store(session: Session) -> IcestreamStore:
    return session.store


def _refs(session: Session, path: str = "/a") -> dict[tuple[int, ...], Any]:
    table = session._copy.table(session._copy.get_array(path))
    return {tuple(i): table.ref(row) for row, i in enumerate(table.index.tolist())}


def _u64(*values: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


# -- one reference -------------------------------------------------------------------------------


def test_one_reference_is_set(session: Session, store: IcestreamStore) -> None:
    store.set_virtual_ref("a/c/0/1", URL, offset=10, length=20, checksum='"tag"')
    store.set_virtual_ref("a/c/1/2", URL, 30, 40, True, datetime(2020, 1, 1, tzinfo=UTC))
    store.set_virtual_ref("scalar/c", "other://x/y", 0, 4, validate_container=False)

    assert _refs(session) == {
        (0, 1): VirtualRef(URL, 10, 20, etag="tag"),
        (1, 2): VirtualRef(URL, 30, 40, last_modified=1_577_836_800),
    }
    assert _refs(session, "/scalar") == {(): VirtualRef("other://x/y", 0, 4)}
    assert session.chunk_type("a", (0, 1)) is ChunkType.virtual
    assert session.chunk_type("/a", [0, 0]) is ChunkType.uninitialized
    assert sorted(session.all_virtual_chunk_locations()) == ["other://x/y", URL, URL]


@pytest.mark.parametrize(
    ("changes", "error", "kind"),
    [
        ({"key": "a/c/2/0"}, InvalidInputError, ErrorKind.INVALID_CHUNK_INDEX),
        ({"key": "a/c/0"}, InvalidInputError, ErrorKind.INVALID_CHUNK_INDEX),
        ({"key": "nope/c/0"}, NodeNotFoundError, ErrorKind.NODE_NOT_FOUND),
        ({"key": "c/0"}, InvalidInputError, ErrorKind.NOT_AN_ARRAY),
        ({"key": "a/zarr.json"}, SessionStateError, ErrorKind.NOT_ALLOWED),
        ({"key": "a/0/0"}, InvalidInputError, ErrorKind.INVALID_KEY),
        ({"location": ""}, InvalidInputError, ErrorKind.CANNOT_PARSE_URL),
        ({"location": None}, InvalidInputError, ErrorKind.CANNOT_PARSE_URL),
        ({"location": "else://x/y"}, InvalidInputError, ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK),
        ({"length": 0}, InvalidInputError, ErrorKind.ZERO_LENGTH_CHUNK),
        ({"length": -1}, InvalidInputError, ErrorKind.INVALID_BYTE_RANGE),
        ({"offset": -1}, InvalidInputError, ErrorKind.INVALID_BYTE_RANGE),
        ({"offset": 2**64}, InvalidInputError, ErrorKind.INVALID_BYTE_RANGE),
        ({"offset": 1.5}, InvalidInputError, ErrorKind.INVALID_BYTE_RANGE),
        ({"checksum": ""}, InvalidInputError, ErrorKind.INVALID_VIRTUAL_REF),
        ({"checksum": datetime(2020, 1, 1)}, InvalidInputError, ErrorKind.INVALID_VIRTUAL_REF),  # noqa: DTZ001  that is the point
    ],
)
def test_a_bad_reference_is_refused(
    session: Session, changes: dict[str, Any], error: type[IcestreamError], kind: ErrorKind
) -> None:
    store = session.store
    good: dict[str, Any] = {"key": "a/c/0/0", "location": URL, "offset": 0, "length": 4}

    with pytest.raises(error) as caught:
        store.set_virtual_ref(**(good | changes))

    assert caught.value.kind is kind
    assert _refs(session) == {}


# -- many references -----------------------------------------------------------------------------


def test_specs_are_set_together(session: Session, store: IcestreamStore) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    store.set_virtual_refs(
        "/a",
        [
            VirtualChunkSpec([1, 1], URL, 5, 6, etag_checksum="tag"),
            VirtualChunkSpec([0, 2], URL, 7, 8, last_updated_at_checksum=moment),
            VirtualChunkSpec([1, 1], URL, 9, 10),
        ],
    )
    store.set_virtual_refs("scalar", [VirtualChunkSpec([], URL, 1, 2)])
    store.set_virtual_refs("a", [])

    assert _refs(session) == {
        (0, 2): VirtualRef(URL, 7, 8, last_modified=1_577_836_800),
        (1, 1): VirtualRef(URL, 9, 10),
    }
    assert _refs(session, "/scalar") == {(): VirtualRef(URL, 1, 2)}


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (VirtualChunkSpec([2, 0], URL, 0, 1), ErrorKind.INVALID_CHUNK_INDEX),
        (VirtualChunkSpec([0], URL, 0, 1), ErrorKind.INVALID_CHUNK_INDEX),
        (VirtualChunkSpec([-1, 0], URL, 0, 1), ErrorKind.INVALID_CHUNK_INDEX),
        (VirtualChunkSpec([0, 2**70], URL, 0, 1), ErrorKind.INVALID_VIRTUAL_REF),
        (VirtualChunkSpec([0, 0], URL, 0, 0), ErrorKind.ZERO_LENGTH_CHUNK),
        (VirtualChunkSpec([0, 0], URL, -1, 1), ErrorKind.INVALID_BYTE_RANGE),
        (VirtualChunkSpec([0, 0], URL, 2**64, 1), ErrorKind.INVALID_BYTE_RANGE),
        (VirtualChunkSpec([0, 0], "", 0, 1), ErrorKind.INVALID_VIRTUAL_REF),
        (VirtualChunkSpec([0, 0], "x://y/z", 0, 1), ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK),
    ],
)
def test_one_bad_spec_sets_none(
    session: Session, store: IcestreamStore, spec: VirtualChunkSpec, kind: ErrorKind
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        store.set_virtual_refs("a", [VirtualChunkSpec([0, 1], URL, 0, 1), spec])

    assert caught.value.kind is kind
    assert _refs(session) == {}


LOCATIONS = [f"s3://bucket/{i}.nc" for i in (0, 0, 1, 1, 2, 2)]


COLUMNS: dict[str, Any] = {
    "list": LOCATIONS,
    "tuple": tuple(LOCATIONS),
    "numpy": np.array(LOCATIONS),
    "string": pa.array(LOCATIONS),
    "large_string": pa.array(LOCATIONS, pa.large_string()),
    "dictionary": pa.array(LOCATIONS).dictionary_encode(),
    "chunks": pa.chunked_array([LOCATIONS[:2], LOCATIONS[2:]]),
    "chunks of dictionaries": pa.chunked_array(
        [pa.array(LOCATIONS[:2]).dictionary_encode(), pa.array(LOCATIONS[2:]).dictionary_encode()]
    ),
}


@pytest.mark.parametrize("form", COLUMNS)
def test_columns_fill_a_box_of_the_grid(session: Session, store: IcestreamStore, form: str) -> None:
    offsets, lengths = np.arange(6, dtype=np.uint64), np.arange(1, 7, dtype=np.uint64)
    store.set_virtual_refs_arr("a", GRID, COLUMNS[form], offsets, lengths, checksum="tag")

    assert _refs(session) == {
        divmod(i, 3): VirtualRef(LOCATIONS[i], i, i + 1, etag="tag") for i in range(6)
    }


def test_a_box_may_start_anywhere_and_have_a_checksum_per_chunk(
    session: Session, store: IcestreamStore
) -> None:
    store.set_virtual_refs_arr(
        "a", (1, 2), LOCATIONS[:2], _u64(0, 1), _u64(1, 1), arr_offset=(1, 1), checksum=["tag", 77]
    )

    assert _refs(session) == {
        (1, 1): VirtualRef(LOCATIONS[0], 0, 1, etag="tag"),
        (1, 2): VirtualRef(LOCATIONS[1], 1, 1, last_modified=77),
    }


@pytest.mark.parametrize("missing", ["", None])
def test_chunks_without_a_location_are_left_as_they_are(
    session: Session, store: IcestreamStore, missing: str | None
) -> None:
    store.set_virtual_ref("a/c/0/1", URL, 1, 2)
    store.set_virtual_refs_arr(
        "a",
        (1, 3),
        pa.array([LOCATIONS[0], missing, LOCATIONS[2]]),
        _u64(0, 0, 2),
        _u64(1, 0, 3),
        checksum=["x", None, "z"],
    )
    store.set_virtual_refs_arr("a", (1, 1), [""], _u64(0), _u64(0), arr_offset=(1, 0))

    assert _refs(session) == {
        (0, 0): VirtualRef(LOCATIONS[0], 0, 1, etag="x"),
        (0, 1): VirtualRef(URL, 1, 2),
        (0, 2): VirtualRef(LOCATIONS[2], 2, 3, etag="z"),
    }


def test_a_scalar_array_has_a_box_of_one(session: Session, store: IcestreamStore) -> None:
    store.set_virtual_refs_arr("scalar", (), [URL], _u64(3), _u64(4))

    assert _refs(session, "/scalar") == {(): VirtualRef(URL, 3, 4)}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"chunk_grid_shape": (2, 4)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"chunk_grid_shape": (6,)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"chunk_grid_shape": (-2, -3)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"chunk_grid_shape": (3, 2)}, ErrorKind.INVALID_CHUNK_INDEX),
        ({"arr_offset": (0, 1)}, ErrorKind.INVALID_CHUNK_INDEX),
        ({"arr_offset": (0, -1)}, ErrorKind.INVALID_CHUNK_INDEX),
        ({"arr_offset": (0,)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"locations": LOCATIONS[:5]}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"locations": [1, 2, 3, 4, 5, 6]}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"locations": pa.array(range(6))}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"locations": [*LOCATIONS[:5], "x://y/z"]}, ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK),
        ({"offsets": _u64(*range(5))}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"offsets": _u64(*range(6)).reshape(2, 3)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"offsets": np.arange(6) - 1}, ErrorKind.INVALID_BYTE_RANGE),
        ({"offsets": np.arange(6.0)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"lengths": _u64(1, 1, 1, 1, 1)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"lengths": _u64(1, 1, 1, 1, 1, 0)}, ErrorKind.ZERO_LENGTH_CHUNK),
        ({"lengths": np.array(["1"] * 6)}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"checksum": ["tag"] * 5}, ErrorKind.INVALID_VIRTUAL_REF),
        ({"checksum": 2**32}, ErrorKind.INVALID_VIRTUAL_REF),
    ],
)
def test_bad_columns_set_nothing(
    session: Session, store: IcestreamStore, changes: dict[str, Any], kind: ErrorKind
) -> None:
    good = {
        "array_path": "a",
        "chunk_grid_shape": GRID,
        "locations": LOCATIONS,
        "offsets": _u64(*range(6)),
        "lengths": _u64(*range(1, 7)),
    }

    with pytest.raises(InvalidInputError) as caught:
        store.set_virtual_refs_arr(**(good | changes))

    assert caught.value.kind is kind
    assert _refs(session) == {}


def test_uncovered_locations_are_counted_and_may_be_allowed(
    session: Session, store: IcestreamStore
) -> None:
    columns = (["x://y/1", "x://y/2", URL], _u64(0, 0, 0), _u64(1, 1, 1))
    with pytest.raises(InvalidInputError, match="x://y/1 and 1 other locations; add one with"):
        store.set_virtual_refs_arr("a", (1, 3), *columns)

    store.set_virtual_refs_arr("a", (1, 3), *columns, validate_containers=False)
    assert len(_refs(session)) == 3


def test_arrays_that_do_not_exist_are_named(store: IcestreamStore) -> None:
    with pytest.raises(NodeNotFoundError, match="/nope"):
        store.set_virtual_refs("nope", [])
    with pytest.raises(NodeNotFoundError, match="/nope"):
        store.set_virtual_refs_arr("nope", (0,), [], _u64(), _u64())


def test_read_only_stores_refuse_references(store: IcestreamStore) -> None:
    reader = store.with_read_only(read_only=True)
    for call in (
        lambda: reader.set_virtual_ref("a/c/0/0", URL, 0, 1),
        lambda: reader.set_virtual_refs("a", []),
        lambda: reader.set_virtual_refs_arr("a", (0, 0), [], _u64(), _u64()),
    ):
        with pytest.raises(ReadOnlyError):
            call()


def test_virtual_chunks_are_not_read_without_consent(store: IcestreamStore) -> None:
    store.set_virtual_ref("a/c/0/0", URL, 0, 16)

    with pytest.raises(AccessError, match="authorize_virtual_chunk_access"):
        store.get_sync("a/c/0/0")
    with pytest.raises(AccessError, match="authorize_virtual_chunk_access"):
        asyncio.run(store.get("a/c/0/0"))
    assert asyncio.run(store.getsize("a/c/0/0")) == 16


# -- twins and listings --------------------------------------------------------------------------


def test_async_twins_do_the_same(session: Session, store: IcestreamStore) -> None:
    async def set_all() -> None:
        await store.set_virtual_ref_async("a/c/0/0", URL, offset=0, length=1)
        await store.set_virtual_refs_async("a", [VirtualChunkSpec([0, 1], URL, 1, 1)])
        await store.set_virtual_refs_arr_async(
            "a", (1, 1), [URL], _u64(2), _u64(1), arr_offset=(0, 2)
        )

    asyncio.run(set_all())

    assert _refs(session) == {(0, i): VirtualRef(URL, i, 1) for i in range(3)}


@pytest.mark.parametrize(
    "name",
    ["set_virtual_ref", "set_virtual_refs", "set_virtual_refs_arr", "array_chunk_iterator"],
)
def test_signatures_hold_all_that_icechunk_has(name: str) -> None:
    for suffix in ("", "_async"):
        theirs_method = getattr(icechunk.IcechunkStore, name + suffix, None)
        if theirs_method is None:
            continue
        ours_method = getattr(IcestreamStore, name + suffix)
        ours, theirs = inspect.signature(ours_method), inspect.signature(theirs_method)
        assert inspect.iscoroutinefunction(ours_method) == bool(suffix) or name.endswith("iterator")
        assert ours == inspect.signature(getattr(IcestreamStore, name))
        for parameter in theirs.parameters.values():
            mine = ours.parameters[parameter.name]
            assert mine.kind in {parameter.kind, mine.POSITIONAL_OR_KEYWORD}
            if parameter.name != "validate_container":  # None there: see validate_containers
                assert mine.default == parameter.default
        assert ours.parameters.keys() - theirs.parameters.keys() <= {
            "validate_containers",
            "relative",
        }


def test_chunks_are_iterated_in_batches_of_columns(store: IcestreamStore) -> None:
    zarr.open_array(store, path="a")[:2, :2] = 1
    store.set_sync("a/c/1/2", zarr.core.buffer.cpu.Buffer.from_bytes(bytes(1000)))
    store.set_virtual_refs_arr(
        "a", (1, 2), LOCATIONS[:2], _u64(5, 6), _u64(7, 8), arr_offset=(0, 1)
    )

    async def batches(size: int) -> list[Any]:
        return [batch async for batch in store.array_chunk_iterator("/a", batch_size=size)]

    (batch,) = asyncio.run(batches(100))
    coordinates, kinds, paths, offsets, lengths, inlined = batch
    assert coordinates.tolist() == [[0, 0], [0, 1], [0, 2], [1, 2]]
    assert kinds.tolist() == [3, 2, 2, 1]
    assert paths[:3] == ["", LOCATIONS[0], LOCATIONS[1]]
    assert len(paths[3]) == 20
    assert offsets.tolist() == [0, 5, 6, 0]
    assert lengths.tolist() == [len(inlined[0]), 7, 8, 1000]
    assert inlined.keys() == {0}
    assert [len(batch.paths) for batch in asyncio.run(batches(3))] == [3, 1]
    with pytest.raises(InvalidInputError, match="batch_size"):
        asyncio.run(batches(0))


def test_coordinates_of_all_chunks_are_listed(session: Session, store: IcestreamStore) -> None:
    store.set_virtual_refs_arr("a", GRID, LOCATIONS, _u64(*range(6)), _u64(*[1] * 6))

    async def coordinates() -> list[tuple[int, ...]]:
        return [index async for index in session.chunk_coordinates("a", batch_size=4)]

    assert asyncio.run(coordinates()) == [divmod(i, 3) for i in range(6)]
