"""Credentials: every way to make them, none to see them."""

import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import icechunk.credentials
import pytest

from icestream import credentials as ours
from icestream.credentials import (
    AzureCredentials,
    AzureRefreshableCredential,
    Credentials,
    GcsBearerCredential,
    GcsCredentials,
    S3Credentials,
    S3StaticCredentials,
)
from icestream.errors import ErrorKind, InvalidInputError, StorageError

SECRET = "hush-hush"

calls: list[int] = []


def renewed_keys() -> S3StaticCredentials:
    calls.append(1)
    ends = datetime.now(UTC) + timedelta(hours=1)
    return S3StaticCredentials(f"key-{len(calls)}", SECRET, expires_after=ends)


def keys_that_end_at_once() -> S3StaticCredentials:
    calls.append(1)
    return S3StaticCredentials(f"key-{len(calls)}", SECRET, expires_after=datetime.now(UTC))


def token() -> GcsBearerCredential:
    return GcsBearerCredential(SECRET)


def signature() -> AzureRefreshableCredential.SasToken:
    return AzureRefreshableCredential.SasToken(SECRET)


def nonsense() -> str:
    return "not a credential"


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:
    calls.clear()


EVERY_KIND: dict[str, Any] = {
    "s3 keys": ours.s3_credentials(
        access_key_id=SECRET, secret_access_key=SECRET, session_token=SECRET
    ),
    "s3 env": ours.s3_credentials(),
    "s3 anonymous": ours.s3_credentials(anonymous=True),
    "s3 function": ours.s3_refreshable_credentials(renewed_keys, True),
    "gcs account": ours.gcs_credentials(service_account_file="/path"),
    "gcs key": ours.gcs_credentials(service_account_key=SECRET),
    "gcs application": ours.gcs_credentials(application_credentials="/path"),
    "gcs token": ours.gcs_credentials(bearer_token=SECRET),
    "gcs env": ours.gcs_credentials(),
    "gcs anonymous": ours.gcs_credentials(anonymous=True),
    "gcs function": ours.gcs_credentials(get_credentials=token, scatter_initial_credentials=True),
    "azure key": ours.azure_credentials(access_key=SECRET),
    "azure sas": ours.azure_credentials(sas_token=SECRET),
    "azure token": ours.azure_credentials(bearer_token=SECRET),
    "azure env": ours.azure_credentials(from_env=True),
    "azure anonymous": ours.azure_credentials(anonymous=True),
    "azure function": ours.azure_credentials(
        get_credentials=signature, scatter_initial_credentials=True
    ),
    "azure renewed key": AzureRefreshableCredential.AccessKey(SECRET),
    "azure renewed token": AzureRefreshableCredential.BearerToken(SECRET),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_secret_is_never_shown(kind: str) -> None:
    credential = EVERY_KIND[kind]

    assert SECRET not in f"{credential!r} {credential}"


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_pickles_to_an_equal_copy(kind: str) -> None:
    credential = EVERY_KIND[kind]
    copy = pickle.loads(pickle.dumps(credential))

    assert copy == credential
    assert hash(copy) == hash(credential)


def test_chooses_the_way_that_the_arguments_name() -> None:
    assert isinstance(ours.s3_credentials(), S3Credentials.FromEnv)
    assert isinstance(ours.s3_credentials(from_env=True), S3Credentials.FromEnv)
    assert isinstance(ours.s3_credentials(anonymous=True), S3Credentials.Anonymous)
    assert isinstance(ours.s3_credentials(get_credentials=renewed_keys), S3Credentials.Refreshable)
    assert isinstance(ours.gcs_credentials(get_credentials=token), GcsCredentials.Refreshable)
    assert isinstance(ours.azure_credentials(), AzureCredentials.FromEnv)


@pytest.mark.parametrize(
    "arguments",
    [
        {"access_key_id": "a"},
        {"secret_access_key": "a"},
        {"session_token": "a"},
        {"access_key_id": "a", "secret_access_key": "b", "anonymous": True},
        {"access_key_id": "a", "secret_access_key": "b", "from_env": True},
        {"anonymous": True, "from_env": True},
        {"anonymous": True, "get_credentials": renewed_keys},
        {"from_env": False},
    ],
    ids=" ".join,
)
def test_contradictions_for_s3_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ours.s3_credentials(**arguments)
    assert caught.value.kind is ErrorKind.INVALID_CREDENTIALS


@pytest.mark.parametrize(
    "arguments",
    [
        {"service_account_file": "a", "bearer_token": "b"},
        {"bearer_token": "b", "anonymous": True},
        {"bearer_token": "b", "from_env": True},
        {"get_credentials": token, "from_env": True},
        {"from_env": False},
    ],
    ids=" ".join,
)
def test_contradictions_for_gcs_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        ours.gcs_credentials(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"access_key": "a", "sas_token": "b"},
        {"access_key": "a", "from_env": True},
        {"anonymous": True, "bearer_token": "b"},
        {"from_env": False},
    ],
    ids=" ".join,
)
def test_contradictions_for_azure_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        ours.azure_credentials(**arguments)


def test_static_credentials_need_one_argument() -> None:
    for make in (ours.gcs_static_credentials, ours.azure_static_credentials):
        with pytest.raises(InvalidInputError, match="needs one"):
            make()


def test_the_function_is_asked_once_while_its_answer_holds() -> None:
    credential = ours.s3_refreshable_credentials(renewed_keys)
    with ThreadPoolExecutor(8) as threads:
        keys = list(threads.map(lambda _: credential.fresh(), range(32)))

    assert len(calls) == 1
    assert {one.access_key_id for one in keys} == {"key-1"}


def test_the_function_is_asked_again_before_its_answer_ends() -> None:
    credential = ours.s3_refreshable_credentials(keys_that_end_at_once)

    assert [credential.fresh().access_key_id for _ in range(3)] == ["key-1", "key-2", "key-3"]


def test_a_time_without_zone_is_taken_as_utc() -> None:
    soon = datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=1)
    later = soon + timedelta(hours=1)
    for ends, asked in ((soon, 1), (later, 0)):
        calls.clear()
        current = S3StaticCredentials("first", SECRET, expires_after=ends)
        S3Credentials.Refreshable(pickle.dumps(renewed_keys), current).fresh()
        assert len(calls) == asked


def test_scattered_credentials_travel_and_others_do_not() -> None:
    scattered = ours.s3_refreshable_credentials(renewed_keys, scatter_initial_credentials=True)
    asked = ours.s3_refreshable_credentials(renewed_keys)
    asked.fresh()
    assert len(calls) == 2

    assert pickle.loads(pickle.dumps(scattered)).fresh().access_key_id == "key-1"
    assert SECRET.encode() not in pickle.dumps(asked)
    assert pickle.loads(pickle.dumps(asked)).fresh().access_key_id == "key-3"


def test_a_function_that_cannot_travel_is_refused_at_once() -> None:
    with pytest.raises(InvalidInputError, match="top of a module"):
        ours.s3_refreshable_credentials(lambda: S3StaticCredentials("a", SECRET))


def test_a_function_that_returns_nonsense_is_named() -> None:
    credential: Any = S3Credentials.Refreshable(pickle.dumps(nonsense))

    with pytest.raises(StorageError, match="returned str"):
        credential.fresh()


def test_marks_credentials_of_containers_with_their_platform() -> None:
    s3, gcs, azure = EVERY_KIND["s3 keys"], EVERY_KIND["gcs key"], EVERY_KIND["azure key"]
    marked = ours.containers_credentials(
        {
            "s3://a/": s3,
            "gs://a/": gcs,
            "az://a/": azure,
            "file:///a/": ours.LocalFileSystemAccess,
            "http://a/": ours.HttpAccess,
            "s3://b/": None,
        }
    )

    assert marked == {
        "s3://a/": Credentials.S3(s3),
        "gs://a/": Credentials.Gcs(gcs),
        "az://a/": Credentials.Azure(azure),
        "file:///a/": Credentials.LocalFileSystemAccess(),
        "http://a/": Credentials.HttpAccess(),
        "s3://b/": None,
    }
    wrong: Any = {"s3://a/": "key"}
    with pytest.raises(InvalidInputError, match="s3://a/"):
        ours.containers_credentials(wrong)


def test_has_the_names_and_parameters_of_icechunk() -> None:
    for name in icechunk.credentials.__all__:
        theirs, own = getattr(icechunk.credentials, name), getattr(ours, name)
        if inspect.isfunction(theirs):
            assert _parameters(own) == _parameters(theirs), name


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in parameters]
