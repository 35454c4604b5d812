import pytest

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.locations import (
    ObjectAddress,
    PrefixMap,
    canonical_location,
    covers,
    is_relative,
    location_fault,
    prefix_fault,
    prefix_keys,
    split_location,
)


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("s3://foo/bar.nc", ObjectAddress("s3", "foo", "bar.nc")),
        ("S3://Foo/Bar.nc", ObjectAddress("s3", "Foo", "Bar.nc")),
        ("gs://b/a/x", ObjectAddress("gcs", "b", "a/x")),
        ("abfs://c/x", ObjectAddress("azure", "c", "x")),
        ("az://c/x", ObjectAddress("azure", "c", "x")),
        ("models://foo/bar.nc", ObjectAddress("models", "foo", "bar.nc")),
        ("models/dev/x.nc", ObjectAddress("", "models", "dev/x.nc")),
        ("https://host:8080/a/b", ObjectAddress("https", "host:8080", "a/b")),
        ("file:///data/x.nc", ObjectAddress("file", "", "data/x.nc")),
        ("FILE://localhost/data/x.nc", ObjectAddress("file", "", "data/x.nc")),
        ("s3://b/a b", ObjectAddress("s3", "b", "a b")),
        ("s3://b/a%20b%25%c3%a9", ObjectAddress("s3", "b", "a b%é")),
        ("s3://b/100%", ObjectAddress("s3", "b", "100%")),
        ("s3://b/%zz", ObjectAddress("s3", "b", "%zz")),
        ("s3://b/a//b", ObjectAddress("s3", "b", "a//b")),
        ("s3://b/a@b:c", ObjectAddress("s3", "b", "a@b:c")),
        (r"s3://b/a\b", ObjectAddress("s3", "b", r"a\b")),
        ("s3://b/...", ObjectAddress("s3", "b", "...")),
        ("s3://b/.hidden/..x", ObjectAddress("s3", "b", ".hidden/..x")),
    ],
)
def test_a_location_is_a_bucket_and_a_decoded_key(location: str, address: ObjectAddress):
    assert split_location(location) == address
    assert location_fault(location) is None


@pytest.mark.parametrize("location", ["s3://b/x?versionId=3", "s3://b/x#part", "s3://b/x?../.."])
def test_queries_and_fragments_are_not_read_as_part_of_the_key_and_not_stored(location: str):
    assert split_location(location) == ObjectAddress("s3", "b", "x")
    assert "query or fragment" in str(location_fault(location))


def test_an_encoded_question_mark_is_part_of_the_key():
    assert split_location("s3://b/x%3Fy%23z").key == "x?y#z"


ATTACKS = [
    ("s3://b/pub/../secret", "'.' or '..'"),
    ("s3://b/pub/..", "'.' or '..'"),
    ("s3://b/./x", "'.' or '..'"),
    ("s3://b/pub/%2e%2e/secret", "'.' or '..'"),
    ("s3://b/pub/.%2E/secret", "'.' or '..'"),
    (r"s3://b/pub\..\secret", "'.' or '..'"),
    ("s3://b/pub%5c..%5Csecret", "'.' or '..'"),
    ("s3://../b/x", "'.' or '..'"),
    ("../x/y", "'.' or '..'"),
    ("file:///data/../etc/passwd", "'.' or '..'"),
    ("file:///data/%2e%2e/etc/passwd", "'.' or '..'"),
    ("s3://b/pub%2Fsecret", "encoded slash"),
    ("s3://b/pub/..%2fsecret", "encoded slash"),
    ("s3://b%2Fother/x", "encoded slash"),
    ("https://h/pub%2F..%2Fx", "encoded slash"),
    (r"https://h/pub\x", "backslash"),
    ("https://h/pub%5cx", "backslash"),
    ("HTTP://h/pub%5Cx", "backslash"),
    ("file:///data%5C..", "backslash"),
    ("https://user:word@h/x", "user name or password"),
    ("s3://b@evil/x", "user name or password"),
    ("s3://b%40evil/x", "user name or password"),
    ("user@host/x", "user name or password"),
    ("s3://b/x\0.nc", "control character"),
    ("s3://b/x%00.nc", "control character"),
    ("s3://b/x%0d%0aHost: evil", "control character"),
    ("s3://b/x\n", "control character"),
    ("s3://b/\x7f", "control character"),
    ("s3://b/%ff", "UTF-8"),
    ("s3:///x", "names no object"),
    ("s3://b", "names no object"),
    ("s3://b/", "names no object"),
    ("s3://", "names no object"),
    ("s3:/b/x", "names no object"),
    ("models", "names no object"),
    ("", "names no object"),
    ("://b/x", "names no object"),
    ("/data/x.nc", "file:///data/x.nc"),
    ("file://other/x", "not a path on this machine"),
    ("file:///", "not a path on this machine"),
    ("file:x", "not a path on this machine"),
    ("vcc://name/x", "relative to a container"),
]


@pytest.mark.parametrize(("location", "reason"), ATTACKS)
def test_a_location_that_could_mean_another_place_is_refused(location: str, reason: str):
    with pytest.raises(InvalidInputError) as caught:
        split_location(location)

    assert caught.value.kind is ErrorKind.CANNOT_PARSE_URL
    assert reason in str(caught.value)
    assert repr(location) in str(caught.value)
    assert location_fault(location) is not None
    with pytest.raises(InvalidInputError):
        covers("s3", location)


def test_decoding_happens_once():
    assert canonical_location("s3://b/a%252Fb") == "s3://b/a%2Fb"


# -- prefixes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "location"),
    [
        ("s3", "s3://foo/bar.nc"),
        ("S3", "s3://foo/bar.nc"),
        ("s3://", "s3://foo/bar.nc"),
        ("s3://foo", "s3://foo/bar.nc"),
        ("s3://foo/", "s3://foo/bar.nc"),
        ("s3://foo/bar.nc", "s3://foo/bar.nc"),
        ("s3://foo/a", "s3://foo/a/b/c"),
        ("tigris", "tigris://foo/bar.nc"),
        ("models", "models://foo/bar.nc"),
        ("models", "models/foo/bar.nc"),
        ("models://", "models://foo/bar.nc"),
        ("models/", "models/foo/bar.nc"),
        ("models/dev", "models/dev/x.nc"),
        ("gs", "gcs://foo/x"),
        ("gcs", "gs://foo/x"),
        ("gs://foo/", "gcs://foo/x"),
        ("azure", "az://foo/x"),
        ("abfs://foo", "az://foo/x"),
        ("https", "https://host:1/x"),
        ("file:///data", "file://localhost/data/x"),
        ("s3://foo/my data/", "s3://foo/my%20data/x"),
        ("s3://foo/my%20data/", "s3://foo/my data/x"),
    ],
)
def test_a_prefix_covers_what_is_below_it(prefix: str, location: str):
    assert prefix_fault(prefix) is None
    assert covers(prefix, location)


@pytest.mark.parametrize(
    ("prefix", "location"),
    [
        ("s3://foo", "s3://foobar/x"),
        ("s3", "s3x://foo/x"),
        ("s3://foo/a", "s3://foo/ab"),
        ("s3://foo/a/", "s3://foo/a"),
        ("s3", "s3/foo/x"),
        ("models://", "models/foo/x"),
        ("models/", "models://foo/x"),
        ("models/dev", "models/devel/x"),
        ("models/dev", "models/prod/x"),
        ("s3://foo/bar.nc", "s3://foo/bar.nc2"),
        ("http", "https://host/x"),
        ("https://host", "https://host:1/x"),
        ("https://host", "https://host.evil/x"),
        ("s3", "gcs://foo/x"),
    ],
)
def test_a_prefix_covers_nothing_beside_it(prefix: str, location: str):
    assert not covers(prefix, location)


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "://",
        "vcc",
        "vcc://name/",
        "VCC://name",
        "file",
        "file://",
        "file:///",
        "file://other/x/",
        "s3:///x/",
        "s3://u:p@a:9/",
        "s3://a/../b/",
        "s3://a/%2e%2e/",
        "s3://a/b%2Fc/",
        "s3://a/?x/",
        "/data/",
        "a b",
        "s3:/a",
        "s3://a/\0/",
    ],
)
def test_a_prefix_that_could_mean_another_place_is_refused(prefix: str):
    assert prefix_fault(prefix) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3", "s3://"),
        ("gs", "gcs://"),
        ("gs://a/", "gcs://a"),
        ("s3://a", "s3://a/"),
        ("models", "models://"),
        ("models", "models/"),
        ("S3://a/", "s3://a/"),
    ],
)
def test_prefixes_of_the_same_place_share_a_key(one: str, other: str):
    assert set(prefix_keys(one)) & set(prefix_keys(other))


def test_the_longest_prefix_is_found():
    values = PrefixMap.of({"models": 1, "models/dev": 2, "models/prod/": 3, "models/dev/x": 4})

    assert values.find("models/test/x.nc") == 1
    assert values.find("models/dev/x.nc") == 2
    assert values.find("models/prod/x.nc") == 3
    assert values.find("models/prod") == 1
    assert values.find("models/dev/x") == 4
    assert values.find("other/dev/x") is None


def test_only_the_scheme_vcc_is_relative():
    assert is_relative("vcc://name/x")
    assert is_relative("VCC://name/x")
    assert not is_relative("_vcc://name/x")
    assert not is_relative("vcc/name/x")
