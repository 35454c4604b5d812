"""Consent and credentials: what a reader may fetch, and with what."""

import pickle

import pytest

from icestream.credentials import (
    AnyCredential,
    Credentials,
    HttpAccess,
    LocalFileSystemAccess,
    gcs_anonymous_credentials,
    gcs_credentials,
    http_bearer_credentials,
    s3_anonymous_credentials,
    s3_static_credentials,
)
from icestream.errors import AccessError, ErrorKind, InvalidInputError
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from icestream.model.platforms import Platform
from icestream.virtual.access import Access, CredentialSource

Authorize = dict[str, AnyCredential | None]

S3 = ObjectStoreConfig.S3(S3Options())
GCS = ObjectStoreConfig.Gcs()
HTTP = ObjectStoreConfig.Http()
FILES = ObjectStoreConfig.LocalFileSystem("/")


def container(
    prefix: str, store: AnyObjectStoreConfig = S3, name: str | None = None
) -> VirtualChunkContainer:
    return VirtualChunkContainer(prefix, store, name)


def at(endpoint_url: str) -> ObjectStoreConfig.S3Compatible:
    return ObjectStoreConfig.S3Compatible(S3Options(endpoint_url=endpoint_url, allow_http=True))


def keys(secret: str) -> Credentials.S3:
    return Credentials.S3(s3_static_credentials(access_key_id="id", secret_access_key=secret))


def refusal(access: Access, place: VirtualChunkContainer, location: str) -> AccessError:
    with pytest.raises(AccessError) as caught:
        access.grant(place, location)
    return caught.value


def is_granted(access: Access, place: VirtualChunkContainer, location: str) -> bool:
    return access.grant(place, location).source in set(CredentialSource)


# -- consent --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "location"),
    [
        ("s3", "s3://bucket/x.nc"),
        ("s3://", "s3://bucket/x.nc"),
        ("S3", "s3://bucket/x.nc"),
        ("s3://bucket", "s3://bucket/x.nc"),
        ("s3://bucket/", "S3://bucket/x.nc"),
        ("s3://bucket/a b", "s3://bucket/a%20b/x.nc"),
        ("s3://bucket/x.nc", "s3://bucket/x.nc"),
        ("gs", "gcs://bucket/x.nc"),
        ("gcs://bucket/", "gs://bucket/x.nc"),
        ("az://bucket", "abfs://bucket/x.nc"),
        ("models://", "models://bucket/x.nc"),
        ("models/", "models/dev/x.nc"),
        ("models/dev", "models/dev/x.nc"),
    ],
)
def test_a_prefix_authorises_what_is_below_it(key: str, location: str) -> None:
    granted = Access.of({key: None}).grant(container("any"), location)

    assert granted.source is CredentialSource.REPOSITORY
    assert granted.credentials is None


@pytest.mark.parametrize(
    ("key", "location"),
    [
        ("s3", "s3x://bucket/x.nc"),
        ("s3://foo", "s3://foobar/x.nc"),
        ("s3://foo/a", "s3://foo/ab/x.nc"),
        ("s3://foo/a/", "s3://foo/a"),
        ("s3", "gcs://bucket/x.nc"),
        ("models/dev", "models/development/x.nc"),
        ("models/dev", "models://dev/x.nc"),
        ("models", "models://bucket/x.nc"),
        ("*", "s3://bucket/x.nc"),
        ("http://example.org", "https://example.org/x.nc"),
    ],
)
def test_nothing_else_is_authorised(key: str, location: str) -> None:
    error = refusal(Access.of({key: None}), container("any", name="there"), location)

    assert error.kind is ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER
    assert location in str(error)
    assert "'there'" in str(error)


@pytest.mark.parametrize("authorize", [None, {}])
def test_without_any_key_nothing_is_authorised(authorize: None) -> None:
    error = refusal(Access.of(authorize), container("s3", name="s3"), "s3://bucket/x.nc")

    assert "authorize_virtual_chunk_access={'s3': None}" in str(error)


@pytest.mark.parametrize(
    ("prefix", "location", "suggested"),
    [
        ("s3://bucket/", "s3://bucket/x.nc", "s3://bucket/"),
        ("models", "models://bucket/x.nc", "models://"),
        ("models", "models/dev/x.nc", "models/"),
        ("modela://virtual-a", "modela://virtual-a/x.nc", "modela://virtual-a"),
    ],
)
def test_the_refusal_names_an_argument_that_helps(
    prefix: str, location: str, suggested: str
) -> None:
    place = container(prefix)
    error = refusal(Access.of(None), place, location)

    assert f"authorize_virtual_chunk_access={{{suggested!r}: None}}" in str(error)
    assert is_granted(Access.of({suggested: None}), place, location)


def test_a_location_that_climbs_out_of_an_authorised_prefix_is_refused() -> None:
    access = Access.of({"s3://bucket/public/": None})

    for location in [
        "s3://bucket/public/../secret",
        "s3://bucket/public/%2e%2e/secret",
        "s3://bucket/public%2f..%2fsecret",
        "s3://bucket/public/..%2fsecret",
        "s3://user@bucket/public/x",
    ]:
        with pytest.raises(InvalidInputError):
            access.grant(container("s3"), location)


def test_a_query_cannot_make_another_object_look_authorised() -> None:
    access = Access.of({"s3://bucket/public/": None})

    with pytest.raises(InvalidInputError):
        access.grant(container("s3"), "s3://bucket?/public/x")
    refusal(access, container("s3"), "s3://bucket/secret?/public/x")


def test_a_key_that_could_cover_nothing_is_refused_at_once() -> None:
    for key in ["file", "file://", "file:///", "vcc://name/", "s3://bucket/../"]:
        with pytest.raises(InvalidInputError, match="authorize_virtual_chunk_access"):
            Access.of({key: None})


# -- names ----------------------------------------------------------------------------------------


def test_a_name_supplies_credentials_and_authorises_nothing() -> None:
    place = container("modela://virtual-a", GCS, name="modela")
    secret = Credentials.Gcs(gcs_credentials(bearer_token="t"))

    refusal(Access.of({"modela": secret}), place, "modela://virtual-a/x.nc")
    granted = Access.of({"modela": secret, "modela://virtual-a": None}).grant(
        place, "modela://virtual-a/x.nc"
    )

    assert (granted.source, granted.key) == (CredentialSource.CONTAINER, "modela")
    assert granted.credentials == secret


@pytest.mark.parametrize(
    "moved",
    [
        container("s3://evil/", name="modela"),
        container("modela", name="modela"),
        container("modela://", name="modela"),
        container("modela", name="renamed"),
        container("modela://virtual-b", name="modela"),
    ],
)
def test_a_repository_that_changes_the_prefix_behind_a_name_gets_nothing(
    moved: VirtualChunkContainer,
) -> None:
    access = Access.of({"modela": keys("secret"), "modela://virtual-a/": None})

    for location in ["s3://evil/x", "modela://evil/x", "modela://virtual-b/x", "modela/evil/x"]:
        assert "secret" not in str(refusal(access, moved, location))


@pytest.mark.parametrize("endpoint", ["https://evil.org", "evil.org:9000", "http://evil.org"])
def test_a_repository_that_changes_the_endpoint_behind_a_name_gets_nothing(endpoint: str) -> None:
    moved = container("modela://virtual-a/", at(endpoint), name="modela")
    access = Access.of({"modela": keys("secret"), "modela://virtual-a/": None})

    error = refusal(access, moved, "modela://virtual-a/x.nc")

    assert endpoint in str(error)
    assert "modela://virtual-a/x.nc" in str(error)


@pytest.mark.parametrize("region", ["x@evil.org/", "evil.org/#", "evil.org?"])
def test_a_region_that_makes_another_host_counts_as_an_endpoint(region: str) -> None:
    moved = container("s3://bucket/", ObjectStoreConfig.S3(S3Options(region=region)))

    refusal(Access.of({"s3": keys("secret")}), moved, "s3://bucket/x.nc")


# -- endpoints ------------------------------------------------------------------------------------


def test_credentials_for_a_wider_prefix_do_not_go_to_an_endpoint_of_the_stored_configuration() -> (
    None
):
    place = container("s3://bucket/", at("https://minio.example"))
    location = "s3://bucket/x.nc"

    unmeant: list[Authorize] = [
        {"s3": keys("k")},
        {"s3": None},
        {"s3://bucket/": None, "*": keys("k")},
    ]
    for authorize in unmeant:
        error = refusal(Access.of(authorize), place, location)
        assert "authorize_virtual_chunk_access={'https://minio.example': None}" in str(error)
        assert is_granted(Access.of({**authorize, "https://minio.example": None}), place, location)


@pytest.mark.parametrize("key", ["s3://bucket/", "s3://bucket/folder", "s3://bucket"])
def test_credentials_for_the_containers_own_prefix_go_where_it_leads(key: str) -> None:
    place = container("s3://bucket/", at("https://minio.example"))

    granted = Access.of({key: keys("k")}).grant(place, "s3://bucket/folder/x.nc")

    assert granted.credentials == keys("k")


def test_what_carries_no_secret_may_go_to_any_public_endpoint() -> None:
    anonymous = Credentials.S3(s3_anonymous_credentials())
    place = container("s3://bucket/", at("https://minio.example"))
    public = container(
        "s3://bucket/",
        ObjectStoreConfig.S3(S3Options(endpoint_url="https://minio.example", anonymous=True)),
    )

    assert is_granted(Access.of({"s3": anonymous}), place, "s3://bucket/x.nc")
    assert is_granted(Access.of({"s3": None}), public, "s3://bucket/x.nc")


def test_an_endpoint_that_the_reader_passed_is_known() -> None:
    place = container("s3://bucket/", at("localhost:9000"), name="minio-override")
    location = "s3://bucket/x.nc"

    assert "localhost:9000" in str(refusal(Access.of({"s3": keys("k")}), place, location))
    assert is_granted(Access.of({"s3": keys("k")}, [place]), place, location)
    assert is_granted(
        Access.of({"s3": keys("k")}, own_endpoints=["http://localhost:9000"]), place, location
    )
    other = container("s3://bucket/", at("localhost:9001"), name="minio-override")
    refusal(Access.of({"s3": keys("k")}, [place]), other, location)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://localhost:9000",
        "localhost:9000",
        "http://127.0.0.1:9000/",
        "http://127.1",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://[::1]:9000",
        "http://[::ffff:127.0.0.1]",
        "http://[64:ff9b::7f00:1]",
        "http://minio.localhost",
        "http://LOCALHOST.",
        "http://127%2e0.0.1",
        "http://\uff11\uff12\uff17.0.0.1",
        "http://user@localhost",
        "http:\\\\localhost",
        "http://169.254.169.254/latest",
        "http://[fe80::1%25eth0]/",
        "http://0.0.0.0:9000",
        "http://metadata.google.internal",
    ],
)
def test_a_stored_container_never_leads_to_a_local_endpoint(endpoint: str) -> None:
    place = container("s3://bucket/", at(endpoint))
    anonymous = Credentials.S3(s3_anonymous_credentials())

    tried: list[Authorize] = [{"s3://bucket/": keys("k")}, {"s3": anonymous}, {"s3": None}]
    for authorize in tried:
        assert endpoint in str(refusal(Access.of(authorize), place, "s3://bucket/x.nc"))


@pytest.mark.parametrize(
    "store",
    [
        ObjectStoreConfig.Gcs({"google_base_url": "http://127.0.0.1:4443"}),
        ObjectStoreConfig.Gcs({"proxy_url": "http://localhost:3128"}),
        ObjectStoreConfig.Azure({"account": "a", "azure_storage_endpoint": "http://localhost"}),
        ObjectStoreConfig.Azure({"account": "a", "use_emulator": "true"}),
        ObjectStoreConfig.Azure({"account": "localhost/#"}),
        ObjectStoreConfig.Azure({"account": "x@127.0.0.1/"}),
    ],
)
def test_options_of_other_platforms_lead_to_no_local_endpoint_either(
    store: AnyObjectStoreConfig,
) -> None:
    refusal(Access.of({"gcs": None}), container("gcs", store), "gcs://bucket/x.nc")


def test_ordinary_options_are_no_endpoints() -> None:
    ordinary: list[AnyObjectStoreConfig] = [
        ObjectStoreConfig.Gcs({"service_account": "/home/me/key.json", "timeout": "5s"}),
        ObjectStoreConfig.Azure({"account": "name123", "use_emulator": "false"}),
        ObjectStoreConfig.S3(S3Options(region="us-east-1")),
    ]
    for store in ordinary:
        assert is_granted(Access.of({"gcs": None}), container("gcs", store), "gcs://bucket/x.nc")


def test_a_local_endpoint_is_read_when_a_key_names_it() -> None:
    place = container("s3://bucket/", at("http://localhost:9000"))
    authorize: Authorize = {"s3": keys("k"), "http://localhost:9000": None}

    assert Access.of(authorize).grant(place, "s3://bucket/x.nc").credentials == keys("k")


# -- local files and web servers ------------------------------------------------------------------


def test_files_are_read_when_a_key_names_their_path() -> None:
    place = container("file:///data/", FILES)

    for key in ["file:///data/", "file:///data", "file://localhost/data/sub"]:
        assert is_granted(Access.of({key: LocalFileSystemAccess}), place, "file:///data/sub/x.nc")


def test_files_elsewhere_are_not_read() -> None:
    access = Access.of({"file:///data/": None, "s3": None, "models://": None})

    error = refusal(access, container("file:///etc/", FILES), "file:///etc/passwd")
    assert "authorize_virtual_chunk_access={'file:///etc/': None}" in str(error)
    error = refusal(access, container("models", FILES), "models://etc/passwd")
    assert "local files" in str(error)
    with pytest.raises(InvalidInputError):
        access.grant(container("file:///etc/", FILES), "file:///data/../etc/passwd")


def test_a_scheme_of_files_that_the_reader_passed_is_read() -> None:
    place = container("models", FILES)

    assert is_granted(Access.of({"models://": None}, [place]), place, "models://etc/x")


def test_a_web_server_on_this_machine_needs_a_key_that_names_it() -> None:
    place = container("http", HTTP, name="http")
    location = "http://127.0.0.1:8000/x.nc"

    error = refusal(Access.of({"http": HttpAccess}), place, location)
    assert "authorize_virtual_chunk_access={'http://127.0.0.1:8000/': None}" in str(error)
    refusal(Access.of({"http": None}, [place]), place, location)
    assert is_granted(Access.of({"http://127.0.0.1:8000/": None}), place, location)
    assert is_granted(Access.of({"http": None}), place, "http://example.org/x.nc")


def test_a_token_given_for_a_name_or_by_default_goes_to_no_web_server_that_is_not_named() -> None:
    token = Credentials.Http(http_bearer_credentials("s3cr3t"))
    moved = container("https://evil.org/", HTTP, name="web")

    for authorize in [{"https": None, "web": token}, {"https": None, "*": token}]:
        error = refusal(Access.of(authorize), moved, "https://evil.org/x.nc")
        assert "https://evil.org/" in str(error)
        assert is_granted(
            Access.of({**authorize, "https://evil.org/": None}), moved, "https://evil.org/x.nc"
        )
    assert is_granted(Access.of({"https": token}), moved, "https://evil.org/x.nc")


# -- the order of credentials ---------------------------------------------------------------------


def test_credentials_come_from_container_then_prefix_then_default_then_repository() -> None:
    place = container("s3://bucket/", name="mine")
    authorize: Authorize = {
        "mine": keys("of the container"),
        "s3://bucket/": keys("of the prefix"),
        "s3": keys("of the scheme"),
        "*": keys("of the default"),
    }
    expected = [
        ("mine", CredentialSource.CONTAINER),
        ("s3://bucket/", CredentialSource.PREFIX),
        ("s3", CredentialSource.PREFIX),
        ("*", CredentialSource.DEFAULT),
    ]

    for key, source in expected:
        granted = Access.of({"s3://": None, **authorize}).grant(place, "s3://bucket/x.nc")
        assert (granted.source, granted.credentials) == (source, authorize[key])
        authorize.pop(key)
    granted = Access.of({"s3": None}).grant(place, "s3://bucket/x.nc")
    assert granted.source is CredentialSource.REPOSITORY


def test_a_prefix_inherits_the_credentials_of_a_wider_one() -> None:
    access = Access.of({"s3": keys("wide"), "s3://bucket/": None, "s3://bucket/a/": keys("narrow")})

    def found(location: str) -> AnyCredential | None:
        return access.grant(container("s3"), location).credentials

    assert found("s3://bucket/x") == keys("wide")
    assert found("s3://bucket/a/x") == keys("narrow")
    assert found("s3://other/x") == keys("wide")


def test_default_credentials_of_another_platform_are_passed_over() -> None:
    access = Access.of({"gcs": None, "*": keys("k")})

    granted = access.grant(container("gcs", GCS), "gcs://bucket/x")

    assert granted.source is CredentialSource.REPOSITORY


def test_credentials_of_another_platform_given_for_a_prefix_are_an_error() -> None:
    error = refusal(Access.of({"gcs": keys("k")}), container("gcs", GCS), "gcs://bucket/x")

    assert error.kind is ErrorKind.INVALID_CREDENTIALS
    assert "S3" in str(error)


# -- what is needed -------------------------------------------------------------------------------


def test_needs_say_what_is_missing_and_what_is_there() -> None:
    access = Access.of(
        {"s3": keys("k"), "gcs://one/": Credentials.Gcs(gcs_anonymous_credentials())}
    )

    needs = access.needs(
        [
            container("s3://bucket/", name="own"),
            container("gcs", GCS, name="gcs"),
            container("file:///data/", FILES),
            container("models", GCS, name="models"),
        ]
    )

    assert [need.name for need in needs] == ["own", "gcs", None, "models"]
    assert [need.is_authorized for need in needs] == [True, False, False, False]
    assert [need.is_supplied for need in needs] == [True, False, True, False]
    assert needs[0].source is CredentialSource.PREFIX
    assert needs[0].credential_kinds == ("S3",)
    assert needs[1].authorized_parts == ("gcs://one/",)
    assert needs[1].remedy is None
    assert needs[2].remedy == "authorize_virtual_chunk_access={'file:///data/': None}"
    assert needs[3].remedy == "authorize_virtual_chunk_access={'models://': None}"


def test_the_credentials_of_the_repository_serve_on_its_own_platform() -> None:
    places = [
        container("s3", S3),
        container("gcs", GCS),
        container("s3://b/", at("https://minio.example")),
    ]

    needs = Access.of({"s3": None}).needs(places, own_platform=Platform.S3)

    assert [need.is_supplied for need in needs] == [True, False, False]
    assert {need.source for need in needs} == {CredentialSource.REPOSITORY}


# -- secrets --------------------------------------------------------------------------------------


def test_secrets_are_never_shown_and_travel_in_pickles() -> None:
    bearer = Credentials.Gcs(gcs_credentials(bearer_token="s3cr3t"))
    access = Access.of({"s3": keys("s3cr3t"), "gcs": bearer, "name": keys("s3cr3t")})

    granted = access.grant(container("s3"), "s3://bucket/x")

    assert "s3cr3t" not in repr(access) + repr(granted) + repr(access.needs([container("s3")]))
    assert pickle.loads(pickle.dumps(access)) == access
