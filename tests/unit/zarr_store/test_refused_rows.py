"""What bulk calls say about rows that cannot be set."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zarr
from tests.builders import repository

from icestream.errors import AccessError, ErrorKind, InvalidInputError
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.repository.session import Session
from icestream.zarr_store.store import IcestreamStore

URL = "s3://bucket/file.nc"
LOCATIONS = [URL] * 6
GRID = (2, 3)


@pytest.fixture
def session() -> Session:
    config = RepositoryConfig.default()
    config.set_virtual_chunk_container(
        VirtualChunkContainer("s3://bucket/", ObjectStoreConfig.S3(S3Options(region="eu")))
    )
    session = repository(config=config).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4, 6), chunks=(2, 2), dtype="f4")
    return session


@pytest.fixture
def store(session: Session) -> IcestreamStore:
    return session.store


def _num_refs(session: Session) -> int:
    return len(session._copy.table(session._copy.get_array("/a")))


def _u64(*values: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"lengths": np.array([1, 0, 1, 1, 0, 1], np.uint64)},
            r"rows 1, 4 have length 0.*\(the first is chunk \(0, 1\), in s3://bucket/file\.nc\)",
        ),
        ({"lengths": np.zeros(6, np.uint64)}, "rows 0, 1, 2, 3, 4 and 1 more have length 0"),
        ({"offsets": np.array([0, 0, -1, 0, 0, 0])}, "offsets are negative in rows 2"),
        (
            {"offsets": np.array([0, 0, 0, 2**63 - 1, 0, 0], np.uint64)},
            r"rows 3 end beyond.*\(the first is chunk \(1, 0\), in s3://bucket/file\.nc\)",
        ),
        ({"offsets": np.array([0, 0, 2**64, 0, 0, -1])}, "not between 0 and .* in rows 2, 5"),
        ({"lengths": np.array([1, 1, 1.5, "1", 1, 1], object)}, "no integers in rows 2, 3"),
        ({"checksum": np.array([1, 1, -1, 1, 1, 2**32])}, r"epoch seconds\) in rows 2, 5"),
        ({"checksum": pa.array(["a", "", None, "a", "", "b"])}, "empty texts in rows 1, 4"),
        ({"checksum": ["tag", None, 3, "tag", 1.5, ""]}, "row 4: the checksum 1.5"),
        ({"locations": [URL, None, 3, URL, "", b""]}, "got a 'int' object in rows 2, 5"),
        ({"locations": [URL, URL, URL, URL, "\ud800", ""]}, "surrogates not allowed in rows 4"),
    ],
)
def test_rows_at_fault_are_named(
    session: Session, store: IcestreamStore, changes: dict[str, Any], message: str
) -> None:
    columns: dict[str, Any] = {
        "locations": LOCATIONS,
        "offsets": _u64(*range(6)),
        "lengths": _u64(*[1] * 6),
    } | changes
    with pytest.raises(InvalidInputError, match=message):
        store.set_virtual_refs_arr("a", GRID, **columns)
    assert _num_refs(session) == 0


def _as_dictionary(locations: list[str | None]) -> pa.Array:
    """Return locations as codes into a dictionary that has bad entries which no row uses."""
    encoded = pa.array(locations).dictionary_encode()
    dictionary = pa.concat_arrays([pa.array(["x://unused/y", "also unused"]), encoded.dictionary])
    return pa.DictionaryArray.from_arrays(pc.add(encoded.indices.cast(pa.int32()), 2), dictionary)


class Refusal(NamedTuple):
    """A location that is refused, and how."""

    location: str
    options: dict[str, Any]
    kind: ErrorKind
    message: str


@pytest.mark.parametrize(
    "form",
    [list, pa.array, lambda given: pa.chunked_array([given[:2], given[2:]]), _as_dictionary],
    ids=["list", "array", "chunked", "dictionary"],
)
@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(
            "x://y/z",
            {},
            ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            r"^rows 2, 4: no virtual chunk container covers x://y/z;",
        ),
        Refusal(
            "s3://bucket/../other",
            {"validate_containers": False},
            ErrorKind.CANNOT_PARSE_URL,
            r"^rows 2, 4: the location 's3://bucket/../other'",
        ),
        Refusal(
            URL,
            {"relative": True},
            ErrorKind.INVALID_VIRTUAL_REF,
            rf"^rows 0, 2, 4: {URL} cannot be stored relative",
        ),
        Refusal(
            "vcc://nobody/file.nc",
            {"relative": False, "validate_containers": False},
            ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            r"^rows 2, 4: .*nobody",
        ),
    ],
    ids=["uncovered", "malformed", "not relative", "unknown name"],
)
def test_rows_of_refused_locations_are_named_and_nothing_is_set(
    session: Session, form: Callable[[list[str | None]], Any], refusal: Refusal
) -> None:
    # rows without a location are left out, and count all the same
    locations = form([URL, None, refusal.location, "", refusal.location, None])
    columns = (locations, _u64(*range(6)), _u64(*[1] * 6))

    with pytest.raises((InvalidInputError, AccessError), match=refusal.message) as caught:
        session.store.set_virtual_refs_arr("a", GRID, *columns, **refusal.options)

    assert caught.value.kind is refusal.kind
    assert _num_refs(session) == 0


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (VirtualChunkSpec([0, 0], "x://y/z", 0, 1), r"^rows 1: no virtual chunk container covers"),
        (VirtualChunkSpec([0, 0], "no url", 0, 1), r"^rows 1: the location 'no url'"),
        (VirtualChunkSpec([0, 0], "", 0, 1), r"^rows 1 for /a have no location"),
        (VirtualChunkSpec([0, 0], URL, 0, 0), r"^rows 1 have length 0"),
        (VirtualChunkSpec([0, 0], URL, -1, 1), r"^offsets are negative in rows 1"),
        (VirtualChunkSpec([0, 0], URL, 2**64, 1), r"^offsets are not between .* in rows 1"),
        (VirtualChunkSpec([0, 9], URL, 0, 1), r"^chunk \(0, 9\) \(rows 1\) is outside"),
        (VirtualChunkSpec([0], URL, 0, 1), r"^chunk \(0,\) \(row 1\) is outside"),
        (
            VirtualChunkSpec([0, 0], URL, 0, 1, etag_checksum='""'),
            r"^row 1: the checksum is an empty",
        ),
    ],
)
def test_rows_of_bad_specs_are_counted_as_they_were_given(
    session: Session, store: IcestreamStore, faulty: VirtualChunkSpec, message: str
) -> None:
    # the first one comes last in the grid
    specs = [VirtualChunkSpec([1, 2], URL, 0, 1), faulty, VirtualChunkSpec([0, 1], URL, 0, 1)]
    with pytest.raises(InvalidInputError, match=message):
        store.set_virtual_refs("a", specs)
    assert _num_refs(session) == 0
