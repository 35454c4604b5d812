from pathlib import Path

import pytest

from icestream.cli.addresses import Target
from icestream.errors import ErrorKind, InvalidInputError
from icestream.storage.http import HttpStorage
from icestream.storage.local import LocalStorage
from icestream.storage.object_store import ObjectStorage


@pytest.mark.parametrize("address", ["{path}", "file://{path}", "file://localhost{path}"])
def test_a_directory_is_a_path_or_a_file_url(address: str, tmp_path: Path) -> None:
    storage = Target(address=address.format(path=tmp_path)).storage()

    assert storage == LocalStorage(tmp_path)


def test_characters_of_a_file_url_may_be_escaped(tmp_path: Path) -> None:
    assert Target(address=f"file://{tmp_path}/a%20b").storage() == LocalStorage(tmp_path / "a b")


@pytest.mark.parametrize("name", ["odd?name", "a#b", "50%20"])
def test_a_path_is_taken_as_it_is(name: str, tmp_path: Path) -> None:
    assert Target(address=f"{tmp_path}/{name}").storage() == LocalStorage(tmp_path / name)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("s3://bucket", "s3://bucket/"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
        ("gcs://bucket/prefix", "gs://bucket/prefix"),
        ("az://account/container/some/prefix", "az://account/container/some/prefix"),
        ("azure://account/container", "az://account/container/"),
    ],
)
def test_buckets_are_urls(address: str, url: str) -> None:
    storage = Target(address=address, anonymous=True).storage()

    assert isinstance(storage, ObjectStorage)
    assert url in repr(storage)


def test_http_is_a_url_too() -> None:
    assert isinstance(Target(address="https://host/path").storage(), HttpStorage)


def test_a_store_with_the_interface_of_s3_has_an_endpoint() -> None:
    target = Target(
        address="s3://bucket/x",
        region="here",
        endpoint_url="http://127.0.0.1:9000",
        allow_http=True,
        anonymous=True,
    )

    assert "http://127.0.0.1:9000" in repr(target.storage())


@pytest.mark.parametrize(
    "target",
    [
        Target(address="ftp://host/path"),
        Target(address="s3:///prefix"),
        Target(address="az://account"),
        Target(address="file://host/path"),
        Target(address="ocean", region="here"),
        Target(address="https://host/path", anonymous=True),
        Target(address="gs://bucket/x", endpoint_url="http://127.0.0.1:9000"),
    ],
)
def test_what_is_no_address_is_refused_with_the_forms_that_are(target: Target) -> None:
    with pytest.raises(InvalidInputError, match="s3://bucket/prefix") as caught:
        target.storage()

    assert caught.value.kind is ErrorKind.CANNOT_PARSE_URL
