from typing import Any

import pytest
from tests.configs import containers

from icestream.errors import InvalidInputError
from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from icestream.model.platforms import PLATFORM_DEFAULTS, Platform, s3_options, with_defaults
from icestream.model.templates import UrlTemplate

Stores = ObjectStoreConfig
S3 = Stores.S3(S3Options())


@pytest.mark.parametrize("container", containers(), ids=lambda c: str(c.url_prefix))
def test_a_prefix_that_fits_its_store_is_accepted(container: VirtualChunkContainer):
    assert list(container.faults()) == []


# the same prefixes are refused by icechunk 2.3.0, see the conformance tests
@pytest.mark.parametrize(
    ("prefix", "store", "reason"),
    [
        ("s3://foo", S3, "does not end with '/'"),
        ("foo/", S3, "has no scheme"),
        ("", S3, "does not end with '/'"),
        ("file:///x/", S3, "does not fit the store S3"),
        ("tigris://a/", S3, "does not fit the store S3"),
        ("vcc://x/", S3, "does not fit the store S3"),
        ("s3:///x/", S3, "names no bucket"),
        ("s3://", S3, "names no bucket"),
        ("s3://a b/", S3, "names no bucket"),
        ("s3://[x/", S3, "is not a URL"),
        ("s3://a/", Stores.LocalFileSystem("/x"), "does not fit the store LocalFileSystem"),
        ("file:///", Stores.LocalFileSystem("/"), "names no folder"),
        ("memory://a/", Stores.InMemory(), "does not fit the store InMemory"),
        ("abfss://a/b/", Stores.Azure(), "does not fit the store Azure"),
    ],
)
def test_a_prefix_that_icechunk_refuses_is_told_from_the_others(
    prefix: str, store: AnyObjectStoreConfig, reason: str
):
    faults = list(VirtualChunkContainer(prefix, store).icechunk_faults("c"))

    assert any(fault.path == "c.url_prefix" and reason in fault.reason for fault in faults)
    assert all(fault.tolerated for fault in faults)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_name_that_no_location_can_have_is_a_fault(name: str):
    (fault,) = VirtualChunkContainer("s3://a/", S3, name).faults("c")

    assert str(fault) == f"c.name: {name!r} is empty or contains '/'"


@pytest.mark.parametrize(
    ("store", "fault"),
    [
        ("s3", "c.store: 's3' is not a variant of ObjectStoreConfig"),
        (Stores.S3(S3Options(region=3)), "c.store.region: 3 is not a text"),  # type: ignore[arg-type]  # the test
        (
            Stores.S3(S3Options(network_stream_timeout_seconds=-1)),
            "c.store.network_stream_timeout_seconds: -1 is not in 0..4294967295",
        ),
        (Stores.Gcs({"a": 3}), "c.store.a: a int is not a text"),  # type: ignore[dict-item]  # the test
        (Stores.Http(None, {"h": None}), "c.store.h: a NoneType is not a text"),  # type: ignore[dict-item]  # the test
    ],
)
def test_options_that_cannot_be_stored_are_a_fault(store: AnyObjectStoreConfig, fault: str):
    faults = VirtualChunkContainer("s3://a/", store).faults("c")

    assert [str(found) for found in faults] == [fault]


# -- containers that only this package has --------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["s3", "s3://", "s3://foo", "s3://foo/bar.nc", "models", "models/dev", "models://x"]
)
def test_a_prefix_may_be_a_scheme_a_bucket_an_object_or_a_path(prefix: str):
    assert list(VirtualChunkContainer(prefix, S3).faults()) == []
    assert any(VirtualChunkContainer(prefix, S3).icechunk_faults())


@pytest.mark.parametrize(
    ("prefix", "store", "reason"),
    [
        ("file:///x/", S3, "does not fit the store S3"),
        ("tigris", S3, "does not fit the store S3"),
        ("s3://a/", Stores.LocalFileSystem("/"), "does not fit the store LocalFileSystem"),
        ("gs", Stores.Azure(), "does not fit the store Azure"),
        ("http://h/", Stores.Gcs(), "does not fit the store Gcs"),
        ("models", Stores.InMemory(), "does not fit a store in memory"),
        ("vcc://x/", S3, "the scheme vcc"),
        ("s3://a/../", S3, "'..'"),
        ("s3://u:p@a/", S3, "user name"),
    ],
)
def test_a_prefix_that_would_mislead_is_a_fault(
    prefix: str, store: AnyObjectStoreConfig, reason: str
):
    (fault,) = VirtualChunkContainer(prefix, store).faults("c")

    assert fault.path == "c.url_prefix"
    assert reason in fault.reason


@pytest.mark.parametrize(
    ("options", "store"),
    [
        ({"object_store": "s3", "region": "r"}, Stores.S3(S3Options(region="r"))),
        (
            {"object_store": "s3", "anonymous": True, "requester_pays": True},
            Stores.S3(S3Options(anonymous=True, requester_pays=True)),
        ),
        ({"object_store": "tigris"}, Stores.Tigris(S3Options())),
        (
            {"object_store": "s3_compatible", "endpoint_url": "localhost:9000"},
            Stores.S3Compatible(S3Options(endpoint_url="https://localhost:9000")),
        ),
        (
            {
                "object_store": "s3_compatible",
                "endpoint_url": "localhost:9000",
                "allow_http": True,
                "force_path_style": True,
            },
            Stores.S3Compatible(
                S3Options(
                    endpoint_url="http://localhost:9000", allow_http=True, force_path_style=True
                )
            ),
        ),
        (
            {"object_store": "minio"},
            Stores.S3Compatible(
                S3Options(
                    region="us-east-1",
                    endpoint_url="http://localhost:9000",
                    allow_http=True,
                    force_path_style=True,
                )
            ),
        ),
        ({"object_store": "gcs"}, Stores.Gcs()),
        (
            {"object_store": "gcs", "anonymous": True, "endpoint_url": "h:1", "allow_http": True},
            Stores.Gcs({"base_url": "http://h:1", "skip_signature": "true", "allow_http": "true"}),
        ),
        (
            {"object_store": "azure", "options": {"account": "a"}, "endpoint_url": "https://e"},
            Stores.Azure({"account": "a", "endpoint": "https://e"}),
        ),
        ({"object_store": "http", "headers": {"h": "v"}}, Stores.Http(None, {"h": "v"})),
        ({"object_store": "local_file_system", "path": "/x"}, Stores.LocalFileSystem("/x")),
        ({"object_store": Stores.Gcs({"a": "b"})}, Stores.Gcs({"a": "b"})),
    ],
)
def test_a_container_is_made_from_its_platform(options: Any, store: AnyObjectStoreConfig):
    container = VirtualChunkContainer.of(name="n", prefix="models", **options)

    assert container == VirtualChunkContainer("models", store, "n")
    assert list(container.faults()) == []


@pytest.mark.parametrize(
    ("prefix", "platform"),
    [
        ("s3://a/", Platform.S3),
        ("gs", Platform.GCS),
        ("az://a", Platform.AZURE),
        ("https://h", Platform.HTTP),
        ("file:///x", Platform.LOCAL_FILE_SYSTEM),
    ],
)
def test_the_platform_of_a_common_scheme_needs_no_saying(prefix: str, platform: Platform):
    assert VirtualChunkContainer.of(prefix=prefix).platform is platform


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"prefix": "models"}, "object_store is None for the prefix 'models'; give one of s3"),
        ({"prefix": "s3", "object_store": "r2"}, "object_store is 'r2'"),
        ({"prefix": "s3", "headers": {"a": "b"}}, "headers cannot be set for s3"),
        ({"prefix": "gs", "requester_pays": True}, "requester_pays cannot be set for gcs"),
        ({"prefix": "https", "endpoint_url": "h"}, "endpoint_url cannot be set for http"),
        ({"prefix": "file:///x", "anonymous": True}, "anonymous cannot be set for local"),
        ({"prefix": "s3", "object_store": S3, "region": "r"}, "region must be in the store"),
    ],
)
def test_what_a_platform_does_not_have_is_refused(options: Any, reason: str):
    with pytest.raises(InvalidInputError, match=reason):
        VirtualChunkContainer.of(**options)


def test_the_region_is_known_on_every_platform():
    assert VirtualChunkContainer.of(prefix="s3", region="r").region == "r"
    assert VirtualChunkContainer.of(prefix="gcs", name="gcs", region="africa-south1").region == (
        "africa-south1"
    )


def test_the_prefix_of_a_template_follows_from_it():
    container = VirtualChunkContainer.of(
        name="t", object_store="s3", url_template="s3://b/{}", default_template_arguments=["x"]
    )

    assert container.url_prefix == "s3://b/"
    assert container.template == UrlTemplate("s3://b/{}", ("x",))
    assert container.key == "s3://b/{}"
    assert list(container.faults()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"prefix": "s3://a/", "name": "t", "url_template": "s3://b/{}"}, "is not below"),
        ({"prefix": "s3://a/", "url_template": "s3://a/{}"}, "without a name"),
        ({"prefix": "s3://a/", "name": "t", "url_template": "s3://a/x"}, "no placeholder"),
        ({"prefix": "s3://a/", "default_template_arguments": ["x"]}, "is missing"),
        ({"prefix": "s3", "name": "t", "url_template": "s3://a/{}"}, None),
        ({"prefix": "s3://a", "name": "t", "url_template": "s3://a/{}"}, None),
    ],
)
def test_a_template_must_be_usable_and_below_its_prefix(options: Any, reason: str | None):
    faults = [fault.reason for fault in VirtualChunkContainer.of(**options).faults()]

    assert (faults == []) if reason is None else any(reason in fault for fault in faults)


@pytest.mark.parametrize(
    ("store", "repository", "region", "endpoint_url"),
    [
        (Stores.S3(S3Options()), None, "us-east-1", None),
        (Stores.S3(S3Options(region="r")), Stores.S3(S3Options(region="q")), "r", None),
        (Stores.S3(S3Options()), Stores.S3(S3Options(region="q")), "q", None),
        (Stores.S3(S3Options()), Stores.Tigris(S3Options(region="q")), "us-east-1", None),
        (Stores.S3(S3Options()), Stores.Gcs(), "us-east-1", None),
        (Stores.S3(S3Options(endpoint_url="h:1")), None, "us-east-1", "https://h:1"),
        (
            Stores.S3(S3Options(endpoint_url="h:1", allow_http=True)),
            None,
            "us-east-1",
            "http://h:1",
        ),
        (Stores.S3Compatible(S3Options()), None, "us-east-1", None),
        (
            Stores.S3Compatible(S3Options()),
            Stores.S3Compatible(S3Options(region="q", endpoint_url="http://e")),
            "q",
            "http://e",
        ),
        (
            Stores.S3(S3Options()),
            Stores.S3(S3Options(region="q", endpoint_url="http://e")),
            "q",
            None,
        ),
        (Stores.Tigris(S3Options()), None, "auto", "https://t3.storage.dev"),
        (Stores.Tigris(S3Options(region="iad")), None, "iad", "https://t3.storage.dev"),
    ],
)
def test_what_is_left_open_is_that_of_the_repository_or_the_platform(
    store: AnyObjectStoreConfig,
    repository: AnyObjectStoreConfig | None,
    region: str | None,
    endpoint_url: str | None,
):
    completed = with_defaults(store, repository)
    options = s3_options(completed)

    assert type(completed) is type(store)
    assert options is not None
    assert (options.region, options.endpoint_url) == (region, endpoint_url)


@pytest.mark.parametrize(
    "store", [Stores.Gcs(), Stores.Azure(), Stores.Http(), Stores.LocalFileSystem("/")]
)
def test_other_platforms_need_neither_region_nor_endpoint(store: AnyObjectStoreConfig):
    assert with_defaults(store, store) is store


def test_every_platform_has_defaults():
    assert set(PLATFORM_DEFAULTS) == set(Platform)


def test_containers_are_equal_by_value():
    one = VirtualChunkContainer("s3://a/", Stores.S3(S3Options(region="r")), "n")
    other = VirtualChunkContainer("s3://a/", Stores.S3(S3Options(region="r")), name="n")

    assert one == other
    other.name = "m"
    assert one != other


def test_a_reference_takes_its_fields_by_position_as_in_icechunk():
    spec = VirtualChunkSpec([1, 2], "s3://a/x.nc", 10, 20, "etag")

    assert (spec.index, spec.location, spec.offset, spec.length) == ([1, 2], "s3://a/x.nc", 10, 20)
    assert spec.etag_checksum == "etag"
    assert spec.last_updated_at_checksum is None
