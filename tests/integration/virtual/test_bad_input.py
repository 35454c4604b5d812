"""Everything that can be wrong with a virtual chunk has an error of its own."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import zarr

import icestream as ice
from icestream.credentials import http_bearer_credentials
from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, StorageError
from icestream.testing.fake_servers import FakeS3, FakeWebServer

VALUES = np.arange(8, dtype="<i4")
TOKEN = "a-secret-session-token"
LATE = "a-secret-that-has-ended"
URL = "s3://here/data.nc"


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    """A fake S3 with one bucket in its own region and one elsewhere."""
    buckets = {"here": "us-east-1", "there": "sa-east-1"}
    with FakeS3(buckets, denied=["stranger"], ended_tokens=[LATE]) as server:
        for bucket in buckets:
            server.put(f"/{bucket}/data.nc", VALUES.tobytes())
        yield server


def open_repository(
    server: FakeS3, *, key: str = "friend", token: str = TOKEN, region: str = "us-east-1"
) -> ice.Repository:
    """Create a repository that reads everything on S3 from the fake."""
    config = ice.RepositoryConfig()
    place = ice.s3_store(
        endpoint_url=server.url,
        allow_http=True,
        force_path_style=True,
        s3_compatible=True,
        region=region,
    )
    config.set_virtual_chunk_container(ice.VirtualChunkContainer("s3://", place, name="theirs"))
    keys = ice.s3_credentials(access_key_id=key, secret_access_key="hush", session_token=token)
    return ice.Repository.create(
        ice.in_memory_storage(),
        config,
        authorize_virtual_chunk_access={"s3://": keys, server.url: None},
    )


def writable(repo: ice.Repository) -> ice.Session:
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=VALUES.shape, chunks=(4,), dtype="<i4", compressors=None
    )
    return session


def num_references(session: ice.Session) -> int:
    return len(session.all_virtual_chunk_locations())


@dataclass(frozen=True)
class Line:
    """What is wrong, and what is said about it."""

    kind: ErrorKind
    remedy: str
    ref: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, str] = field(default_factory=dict)


SET = {
    "malformed URL": Line(ErrorKind.CANNOT_PARSE_URL, "write scheme://", {"location": "s3:data"}),
    "negative offset": Line(
        ErrorKind.INVALID_BYTE_RANGE, "offset is -1; give an integer between 0", {"offset": -1}
    ),
    "overflowing offset": Line(
        ErrorKind.INVALID_BYTE_RANGE, "beyond 2**63 bytes", {"offset": 2**63}
    ),
    "negative length": Line(
        ErrorKind.INVALID_BYTE_RANGE, "length is -4; give an integer between 0", {"length": -4}
    ),
    "overflowing length": Line(
        ErrorKind.INVALID_BYTE_RANGE, "give an integer between 0 and 2**64", {"length": 2**64}
    ),
    "zero length": Line(ErrorKind.ZERO_LENGTH_CHUNK, "leave such chunks out", {"length": 0}),
}
READ = {
    "offset beyond the object": Line(
        ErrorKind.INVALID_OBJECT_SIZE, "the reference is wrong", {"offset": 1000}
    ),
    "end beyond the object": Line(
        ErrorKind.INVALID_OBJECT_SIZE, "ends before byte 36", {"offset": 20}
    ),
    "object gone": Line(
        ErrorKind.OBJECT_NOT_FOUND, "delete the references", {"location": "s3://here/gone.nc"}
    ),
    "permission denied": Line(
        ErrorKind.PERMISSION_DENIED,
        "give others for this prefix in authorize_virtual_chunk_access",
        reader={"key": "stranger"},
    ),
    "expired token": Line(
        ErrorKind.CREDENTIALS_EXPIRED,
        "give a fresh one in authorize_virtual_chunk_access, or a function that renews it",
        reader={"token": LATE},
    ),
    "wrong region, redirected": Line(
        ErrorKind.WRONG_REGION,
        "(us-east-1); set region in the container",
        {"location": "s3://there/data.nc"},
    ),
    "wrong region, signed for another": Line(
        ErrorKind.WRONG_REGION, "expecting 'us-east-1'", reader={"region": "eu-west-1"}
    ),
}


@pytest.mark.parametrize("name", SET)
def test_what_cannot_be_a_reference_is_refused_at_once(s3: FakeS3, name: str) -> None:
    line = SET[name]
    session = writable(open_repository(s3))
    ref: dict[str, Any] = {"location": URL, "offset": 0, "length": 16} | line.ref

    with pytest.raises(InvalidInputError) as caught:
        session.store.set_virtual_ref("a/c/1", **ref)

    check(caught.value, line, ref["location"], "a/c/1")
    assert num_references(session) == 0
    assert s3.requests == []


@pytest.mark.parametrize("name", SET)
def test_one_such_row_keeps_a_whole_column_out(s3: FakeS3, name: str) -> None:
    line = SET[name]
    session = writable(open_repository(s3))
    ref: dict[str, Any] = {"location": URL, "offset": 0, "length": 16} | line.ref
    # as Python's integers: no dtype holds them all
    columns: Any = [URL, ref["location"]], [0, ref["offset"]], [16, ref["length"]]

    with pytest.raises(InvalidInputError, match="rows 1") as caught:
        session.store.set_virtual_refs_arr("a", (2,), *columns)

    assert caught.value.kind is line.kind
    assert num_references(session) == 0


@pytest.mark.parametrize("checksum", [None, "etag"])
@pytest.mark.parametrize("name", READ)
def test_what_cannot_be_read_says_why(s3: FakeS3, name: str, checksum: str | None) -> None:
    line = READ[name]
    session = writable(open_repository(s3, **line.reader))
    ref: dict[str, Any] = {"location": URL, "offset": 0, "length": 16} | line.ref
    recorded = s3.files["/here/data.nc"].etag if checksum else None
    session.store.set_virtual_ref("a/c/1", **ref, checksum=recorded)

    with pytest.raises(StorageError) as caught:
        zarr.open_array(session.store, path="a", mode="r")[4:]

    check(caught.value, line, ref["location"], "a/c/1")
    assert not caught.value.retryable
    with pytest.raises(StorageError) as again:
        session.store.get_sync("a/c/1")
    assert again.value.kind is line.kind


def check(error: IcestreamError, line: Line, location: str, key: str) -> None:
    text = str(error)
    assert error.kind is line.kind
    assert location in text
    assert key in text
    assert "'theirs'" in text or line.kind is ErrorKind.CANNOT_PARSE_URL
    assert line.remedy in text
    assert not [secret for secret in ("hush", TOKEN, LATE) if secret in text]


def test_no_two_lines_are_told_alike() -> None:
    names = {"negative": "range", "overflowing": "range", "wrong": "region", "end": "offset"}
    reasons = {
        (names.get(name.split()[0], name.split()[0]), line.kind)
        for name, line in (SET | READ).items()
    }
    assert len(reasons) == len({kind for _, kind in reasons}) == 8


def bearer_token(expires: float) -> str:
    """Return a JSON Web Token without a signature."""
    parts = ({"alg": "none"}, {"sub": "reader", "exp": expires})
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@pytest.mark.parametrize(
    ("token", "kind", "words"),
    [
        (bearer_token(1_000_000_000), ErrorKind.CREDENTIALS_EXPIRED, "a token has expired"),
        (bearer_token(4_000_000_000), ErrorKind.INVALID_CREDENTIALS, "does not accept"),
        ("some-other-token", ErrorKind.INVALID_CREDENTIALS, "does not accept"),
    ],
)
def test_a_web_server_that_gives_no_reason_is_told_apart_by_the_token(
    token: str, kind: ErrorKind, words: str
) -> None:
    with FakeWebServer(required_headers={"Authorization": "Bearer the-right-one"}) as web:
        web.put("/data.nc", VALUES.tobytes())
        consent = {f"{web.url}/": ice.Credentials.Http(http_bearer_credentials(token))}
        session = writable(
            ice.Repository.create(ice.in_memory_storage(), authorize_virtual_chunk_access=consent)
        )
        session.store.set_virtual_ref("a/c/0", f"{web.url}/data.nc", 0, 16)

        with pytest.raises(StorageError, match=words) as caught:
            zarr.open_array(session.store, path="a", mode="r")[:4]

    assert caught.value.kind is kind
    assert f"{web.url}/data.nc" in str(caught.value)
    assert "a/c/0" in str(caught.value)
    assert token not in str(caught.value)
