"""One range of a foreign object: checks, and errors that say what to do."""

import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from icestream.credentials import Credentials, s3_static_credentials
from icestream.errors import (
    ErrorKind,
    IcestreamError,
    IntegrityError,
    InvalidInputError,
    ObjectChangedError,
    StorageError,
)
from icestream.model.chunk_refs import VirtualRef
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ByteRange, Storage
from icestream.storage.translation import translate
from icestream.testing.doubles import WrappedStorage
from icestream.virtual.access import CredentialSource, Grant
from icestream.virtual.fetcher import (
    UNCHECKED,
    Checksum,
    absolute_range,
    checksum_of,
    fetch,
    fetch_async,
    name_chunk,
)
from icestream.virtual.resolver import Target

KEYS = Credentials.S3(s3_static_credentials(access_key_id="id", secret_access_key="s3cr3t"))


class GenericError(Exception):
    """Named as obstore names the errors that have no class of their own."""


class PermissionDeniedError(Exception):
    """Named as obstore names it."""


class RefusingStorage(WrappedStorage):
    """Answers as a remote store does that refuses."""

    def __init__(self, answer: Exception) -> None:
        super().__init__(InMemoryStorage())
        self.answer = answer

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        raise translate(self.answer, "read", f"{path} in s3://bucket/") from self.answer


class CuttingStorage(WrappedStorage):
    """Gives less than it was asked for, and does not say so."""

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        return super().get(path, byte_range)[:-1]


@pytest.fixture
def storage() -> InMemoryStorage:
    storage = InMemoryStorage()
    storage.put("data/x.nc", b"0123456789")
    return storage


def target_of(storage: Storage) -> Target:
    container = VirtualChunkContainer("s3://bucket/", ObjectStoreConfig.S3(S3Options()), "theirs")
    grant = Grant(CredentialSource.PREFIX, "s3://bucket/", KEYS)
    return Target("s3://bucket/data/x.nc", "data/x.nc", storage, container, grant)


async def error_of(
    storage: Storage, byte_range: ByteRange = (2, 5), checksum: Checksum = UNCHECKED
) -> IcestreamError:
    """Return the error of a read, which is the same for both ways to read."""
    target = target_of(storage)
    with pytest.raises(IcestreamError) as one:
        fetch(target, byte_range, checksum)
    with pytest.raises(IcestreamError) as two:
        await fetch_async(target, byte_range, checksum)
    assert (type(one.value), str(one.value)) == (type(two.value), str(two.value))
    assert "s3://bucket/data/x.nc" in str(one.value)
    assert "'theirs'" in str(one.value)
    assert "s3cr3t" not in str(one.value)
    return one.value


async def test_a_range_is_returned(storage: InMemoryStorage) -> None:
    target = target_of(storage)

    assert fetch(target, (2, 5), UNCHECKED) == b"234"
    assert await fetch_async(target, (2, 5), UNCHECKED) == b"234"


async def test_an_object_that_is_gone_is_not_a_missing_chunk(storage: InMemoryStorage) -> None:
    storage.delete_many(["data/x.nc"])

    error = await error_of(storage)

    assert isinstance(error, StorageError)
    assert not isinstance(error, KeyError)
    assert error.kind is ErrorKind.OBJECT_NOT_FOUND
    assert "is gone" in str(error)


async def test_a_range_beyond_the_object_is_an_error(storage: InMemoryStorage) -> None:
    error = await error_of(storage, (8, 12))

    assert error.kind is ErrorKind.INVALID_OBJECT_SIZE
    assert "ends before byte 12" in str(error)


def test_an_answer_that_was_cut_is_an_error(storage: InMemoryStorage) -> None:
    with pytest.raises(IntegrityError, match="gave 2 bytes where 3 were asked for"):
        fetch(target_of(CuttingStorage(storage)), (2, 5), UNCHECKED)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            PermissionDeniedError("status: 403 Forbidden <Code>AccessDenied</Code>"),
            ErrorKind.PERMISSION_DENIED,
            "permission denied with the credentials given for 's3://bucket/'",
        ),
        (
            GenericError(
                "Server returned non-2xx status code: 400 Bad Request: <Error><Code>ExpiredToken"
                "</Code><Message>The provided token has expired.</Message></Error>"
            ),
            ErrorKind.CREDENTIALS_EXPIRED,
            "a token has expired, of the credentials given for 's3://bucket/'",
        ),
        (
            GenericError(
                "Received redirect without LOCATION, this normally indicates an incorrectly "
                "configured region"
            ),
            ErrorKind.WRONG_REGION,
            "set region in the container",
        ),
        (
            GenericError(
                "Server returned non-2xx status code: 400 Bad Request: <Error><Code>"
                "AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; "
                "expecting 'sa-east-1'</Message></Error>"
            ),
            ErrorKind.WRONG_REGION,
            "expecting 'sa-east-1'",
        ),
        (
            GenericError("Server returned non-2xx status code: 503 Service Unavailable: SlowDown"),
            ErrorKind.THROTTLED,
            "overloaded",
        ),
    ],
)
async def test_each_refusal_of_a_store_says_what_to_do(
    answer: Exception, kind: ErrorKind, words: str
) -> None:
    error = await error_of(RefusingStorage(answer))

    assert isinstance(error, StorageError)
    assert error.kind is kind
    assert words in str(error)
    assert error.retryable is (kind is ErrorKind.THROTTLED)


async def test_words_in_a_location_are_not_taken_for_a_reason() -> None:
    storage = RefusingStorage(PermissionDeniedError("status: 403 Forbidden"))
    key = "expired/PermanentRedirect wrong region.nc"
    target = replace(target_of(storage), location=f"s3://bucket/{key}", key=key)

    with pytest.raises(StorageError) as caught:
        await fetch_async(target, (2, 5), UNCHECKED)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED


async def test_credentials_that_say_they_ended_are_the_reason_for_a_refusal() -> None:
    storage = RefusingStorage(PermissionDeniedError("status: 403 Forbidden"))
    keys = s3_static_credentials(
        access_key_id="id",
        secret_access_key="s3cr3t",
        expires_after=datetime(2020, 1, 1, tzinfo=UTC),
    )
    grant = Grant(CredentialSource.PREFIX, "s3://bucket/", Credentials.S3(keys))

    with pytest.raises(StorageError, match="a token has expired") as caught:
        await fetch_async(replace(target_of(storage), grant=grant), (2, 5), UNCHECKED)
    assert caught.value.kind is ErrorKind.CREDENTIALS_EXPIRED


async def test_a_file_that_may_not_be_read_needs_other_rights_and_not_other_keys() -> None:
    storage = RefusingStorage(PermissionDeniedError("permission denied"))
    files = VirtualChunkContainer("file:///data/", ObjectStoreConfig.LocalFileSystem("/data"))

    with pytest.raises(StorageError, match="allow the user who runs this program") as caught:
        await fetch_async(replace(target_of(storage), container=files), (2, 5), UNCHECKED)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED


async def test_an_object_with_another_etag_yields_no_data(storage: InMemoryStorage) -> None:
    recorded = storage.head("data/x.nc").version.etag
    storage.put("data/x.nc", b"abcdefghij")
    found = storage.head("data/x.nc").version.etag

    error = await error_of(storage, checksum=Checksum(etag=recorded))

    assert isinstance(error, ObjectChangedError)
    assert error.kind is ErrorKind.VIRTUAL_CHUNK_MODIFIED
    assert (error.location, error.recorded, error.found) == (
        "s3://bucket/data/x.nc",
        recorded,
        found,
    )


async def test_an_object_that_changed_later_yields_no_data(storage: InMemoryStorage) -> None:
    modified = int(storage.head("data/x.nc").last_modified.timestamp())
    ref = VirtualRef("s3://bucket/data/x.nc", 2, 3, last_modified=modified - 1)

    error = await error_of(storage, checksum=checksum_of(ref))

    assert isinstance(error, ObjectChangedError)
    assert error.recorded == datetime.fromtimestamp(modified - 1, UTC)


def test_an_object_that_changed_within_the_recorded_second_passes(
    storage: InMemoryStorage,
) -> None:
    modified = int(storage.head("data/x.nc").last_modified.timestamp())
    ref = VirtualRef("s3://bucket/data/x.nc", 2, 3, last_modified=modified)

    assert fetch(target_of(storage), (2, 5), checksum_of(ref)) == b"234"


def test_the_etag_decides_where_both_are_recorded(storage: InMemoryStorage) -> None:
    etag = storage.head("data/x.nc").version.etag
    ref = VirtualRef("s3://bucket/data/x.nc", 2, 3, etag=etag, last_modified=1)

    assert fetch(target_of(storage), (2, 5), checksum_of(ref)) == b"234"


def test_nothing_recorded_is_nothing_checked() -> None:
    assert checksum_of(VirtualRef("s3://bucket/x", 0, 1)) is UNCHECKED
    assert not UNCHECKED.is_recorded


def test_ranges_count_from_the_start_of_the_chunk(storage: InMemoryStorage) -> None:
    ref = VirtualRef("s3://bucket/x", 100, 10)

    assert absolute_range(target_of(storage), ref, None) == (100, 110)
    assert absolute_range(target_of(storage), ref, (2, 5)) == (102, 105)


PLACE = r"s3://bucket/data/x\.nc \(in the container 'theirs'"


@pytest.mark.parametrize("byte_range", [(0, 11), (-1, 5), (5, 4), (11, 12)])
def test_ranges_outside_the_chunk_are_refused(
    storage: InMemoryStorage, byte_range: ByteRange
) -> None:
    with pytest.raises(InvalidInputError, match=PLACE):
        absolute_range(target_of(storage), VirtualRef("s3://bucket/x", 100, 10), byte_range)


@pytest.mark.parametrize(
    ("offset", "length", "kind"),
    [
        (2**63, 1, ErrorKind.INVALID_BYTE_RANGE),
        (2**64 - 1, 2**64 - 1, ErrorKind.INVALID_BYTE_RANGE),
        (0, 2**63, ErrorKind.INVALID_BYTE_RANGE),
        (5, 0, ErrorKind.ZERO_LENGTH_CHUNK),
    ],
)
def test_a_reference_to_bytes_that_no_object_has_is_refused(
    storage: InMemoryStorage, offset: int, length: int, kind: ErrorKind
) -> None:
    with pytest.raises(InvalidInputError, match=PLACE) as caught:
        absolute_range(target_of(storage), VirtualRef("s3://bucket/x", offset, length), None)
    assert caught.value.kind is kind


def test_errors_can_be_told_which_chunk_was_read() -> None:
    error = name_chunk(ObjectChangedError("it changed", location="s3://b/x"), "temp/c/0/1")

    assert "temp/c/0/1" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
