"""Repositories on web servers, and behind redirects."""

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.storage.web_servers import file_server, redirector, running

from icestream.errors import ErrorKind, NotFoundError, ReadOnlyError, StorageError
from icestream.storage import Storage, Version, http_storage, redirect_storage
from icestream.storage.http import RedirectStorage
from icestream.storage.object_store import ObjectStorage

FILES = {"/repo/chunks/A": b"0123456789", "/repo/refs/branch.ma%25C3%25B1ana": b"encoded"}

WRITES: dict[str, Callable[[Storage], Any]] = {
    "put": lambda storage: storage.put("a", b"x"),
    "create": lambda storage: storage.put_if_absent("a", b"x"),
    "replace": lambda storage: storage.put_if_version("a", b"x", Version("1")),
    "delete": lambda storage: storage.delete_many(["a"]),
}


def test_reads_objects_and_ranges() -> None:
    with running(file_server(FILES, [])) as url:
        storage = http_storage(f"{url}/repo")

        assert storage.get("chunks/A") == b"0123456789"
        assert storage.get("chunks/A", (2, 5)) == b"234"
        assert storage.get_ranges("chunks/A", [(0, 1), (9, 10)]) == [b"0", b"9"]
        assert storage.head("chunks/A").size_bytes == 10
        data, version = storage.get_versioned("chunks/A")
        assert (data, version.etag) == (b"0123456789", "781e5e245d69b566979b86e28d23f2c7")
        assert storage.get("refs/branch.mañana") == b"encoded"
        assert asyncio.run(storage.get_async("chunks/A", (0, 2))) == b"01"
        with pytest.raises(NotFoundError):
            storage.get("chunks/B")


def test_sends_its_headers_and_does_not_show_them() -> None:
    seen: list[dict[str, str]] = []
    with running(file_server(FILES, seen)) as url:
        storage = http_storage(f"{url}/repo", headers={"Authorization": "Bearer hush"})
        pickle.loads(pickle.dumps(storage)).get("chunks/A")

    assert [headers["authorization"] for headers in seen] == ["Bearer hush"]
    assert "hush" not in repr(storage)


def test_does_not_pretend_to_list() -> None:
    with pytest.raises(StorageError, match="no listings"):
        http_storage("http://127.0.0.1:1/repo").list("chunks/")


@pytest.mark.parametrize("write", WRITES)
def test_a_web_server_is_read_only(write: str) -> None:
    storage = http_storage("http://127.0.0.1:1/repo")

    assert storage.read_only
    with pytest.raises(ReadOnlyError) as caught:
        WRITES[write](storage)
    assert caught.value.kind is ErrorKind.READ_ONLY_STORAGE


def test_follows_a_redirect_to_a_web_server() -> None:
    with running(file_server(FILES, [])) as files_url:
        target = files_url.replace("http://", "http+icechunk://") + "/repo"
        locations = {"/name?of=it": "/elsewhere", "/elsewhere": target}
        with running(redirector(locations)) as url:
            storage = redirect_storage(f"{url}/name?of=it")
            copy = pickle.loads(pickle.dumps(storage))

            assert storage.get("chunks/A", (0, 3)) == b"012"
            assert storage.get_ranges("chunks/A", [(0, 3)]) == [b"012"]
            assert storage.get_versioned("chunks/A")[0] == b"0123456789"
            assert storage.head("chunks/A").size_bytes == 10
            assert asyncio.run(storage.get_async("chunks/A")) == b"0123456789"
            assert copy.get("chunks/A") == b"0123456789"
            with pytest.raises(StorageError, match="no listings"):
                storage.list()


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("s3://bucket/some/prefix?region=eu-west-1", "s3://bucket/some/prefix"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
        (
            "r2://bucket/prefix?account_id=me",
            "s3://bucket/prefix at https://me.r2.cloudflarestorage.com",
        ),
        ("tigris://bucket/prefix", "s3://bucket/prefix at https://bucket.t3.storage.dev"),
        ("https+ic://host/path", "https://host/path"),
    ],
)
def test_a_redirect_may_name_any_public_store(location: str, place: str) -> None:
    with running(redirector({"/name": location})) as url:
        storage = redirect_storage(f"{url}/name")
        assert isinstance(storage, RedirectStorage)
        target = storage.target

    assert isinstance(target, ObjectStorage)
    assert target.address.url == place
    assert storage.read_only


@pytest.mark.parametrize(
    "location",
    ["s3://bucket/prefix", "r2://bucket/prefix", "file:///etc", "/name", "ftp://host/path"],
)
def test_a_redirect_that_names_no_store_is_refused(location: str) -> None:
    with running(redirector({"/name": location})) as url, pytest.raises(StorageError) as caught:
        redirect_storage(f"{url}/name").get("repo")
    assert caught.value.kind is ErrorKind.BAD_REDIRECT


@pytest.mark.parametrize("write", WRITES)
def test_a_redirect_is_read_only(write: str) -> None:
    with pytest.raises(ReadOnlyError):
        WRITES[write](redirect_storage("http://127.0.0.1:1/name"))


def test_an_answer_that_is_no_redirect_is_refused() -> None:
    with running(redirector({})) as url, pytest.raises(StorageError, match="no redirect"):
        redirect_storage(f"{url}/name?token=hush").get("repo")
    with pytest.raises(StorageError, match="does not redirect") as caught:
        redirect_storage("http://127.0.0.1:1/name?token=hush").get("repo")
    assert "hush" not in str(caught.value)
