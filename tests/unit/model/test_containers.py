import pytest
from tests.configs import containers

from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options

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
