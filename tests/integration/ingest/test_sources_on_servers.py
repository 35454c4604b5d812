"""Sources on object stores: listed in columns, reached with one access, leased once."""

import pickle
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.ingest_builders import archive

from icestream.credentials import s3_static_credentials
from icestream.errors import AccessError, ConflictError, IcestreamError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.listing import FileListing, list_sources
from icestream.ingest.publishing.leases import Lease
from icestream.ingest.source_access import SourceAccess
from icestream.model.config import RepositoryConfig
from icestream.parsers.source_files import SourceFile
from icestream.repository.repository import Repository
from icestream.storage import Storage, azure_storage, s3_storage
from icestream.storage.memory import InMemoryStorage
from icestream.testing.servers import AzureServer, GcsServer, S3Server

FILES = ("2020/a.nc", "2020/b c%.nc", "2021/a.nc", "note.txt", ".hidden")


def place(server: S3Server, bucket: str, **changes: Any) -> SourcePlace:
    given = {
        "prefix": f"s3://{bucket}/",
        "platform": "s3_compatible",
        "endpoint_url": server.endpoint_url,
        "allow_http": True,
        "region": "us-east-1",
        "force_path_style": True,
    }
    return SourcePlace(**{**given, **changes})


def use_environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_access_key)


def check_listing(declared: Archive, access: SourceAccess, listing: FileListing) -> None:
    """What is listed is what a scan finds, with the same access, also elsewhere."""
    find = pickle.loads(pickle.dumps(access)).find_object
    rows = listing.table.to_pylist()
    assert len(rows) > 1
    for row in rows:
        file = SourceFile.open(row["url"], find)
        assert (file.size, file.identity.etag) == (row["size"], row["etag"])
        assert abs(file.identity.last_modified - row["last_modified"]).total_seconds() < 1
        assert file.read(0, 4) == b"data"
    assert listing.table.equals(list_sources(declared, access).table)


@pytest.mark.server
@pytest.mark.parametrize("name", ["seaweedfs", "moto"])
def test_an_archive_on_s3_is_listed_and_read_with_the_environment(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: S3Server = request.getfixturevalue(name)
    bucket = server.new_bucket()
    writer = s3_storage(bucket=bucket, prefix="sst", **server.storage_arguments())
    for key in FILES:
        writer.put(key, b"data")
    use_environment(server, monkeypatch)
    declared = archive(sources=(f"s3://{bucket}/sst/**/*.nc",), access=(place(server, bucket),))
    access = SourceAccess.of(declared)

    listing = list_sources(declared, access)

    root = f"s3://{bucket}/sst"
    assert listing.table["url"].to_pylist() == [
        f"{root}/2020/a.nc",
        f"{root}/2020/b c%25.nc",
        f"{root}/2021/a.nc",
    ]
    assert listing.num_requests == 1
    check_listing(declared, access, listing)
    whole = archive(sources=(f"s3://{bucket}/sst",), access=declared.access)
    assert len(list_sources(whole)) == 4


@pytest.mark.server
def test_credentials_that_are_given_serve_for_listing_and_reading(moto: S3Server) -> None:
    bucket = moto.new_bucket()
    s3_storage(bucket=bucket, prefix=None, **moto.storage_arguments()).put("a.nc", b"data")
    s3_storage(bucket=bucket, prefix=None, **moto.storage_arguments()).put("b.nc", b"data")
    declared = archive(sources=(f"s3://{bucket}/*.nc",), access=(place(moto, bucket),))
    keys = s3_static_credentials(
        access_key_id=moto.access_key_id, secret_access_key=moto.secret_access_key
    )
    access = SourceAccess.of(declared, authorize={f"s3://{bucket}/": keys})

    check_listing(declared, access, list_sources(declared, access))


@pytest.mark.server
def test_the_containers_of_a_repository_lead_to_its_sources(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = moto.new_bucket()
    s3_storage(bucket=bucket, prefix=None, **moto.storage_arguments()).put("x/a.nc", b"data")
    use_environment(moto, monkeypatch)
    config = RepositoryConfig()
    config.set_virtual_chunk_container(place(moto, bucket).container())
    repository = Repository.create(InMemoryStorage(), config)
    declared = archive(sources=(f"s3://{bucket}/x/",))

    with pytest.raises(AccessError, match="which the reader has not named"):
        list_sources(declared, SourceAccess.of(declared, repository=repository))
    named = SourceAccess.of(declared, repository=repository, authorize={moto.endpoint_url: None})

    assert len(list_sources(declared, named)) == 1


@pytest.mark.server
@pytest.mark.slow
def test_long_listings_take_a_request_per_thousand_and_leave_out_markers(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = moto.new_bucket()
    writer = s3_storage(bucket=bucket, prefix=None, **moto.storage_arguments())
    for i in range(1200):
        writer.put(f"sst/{i % 3}/{i:05}.nc", b"data")
    for marker in ("sst/1", "sst/2_$folder$", "sst/7"):
        writer.put(marker, b"")
    urlopen(Request(f"{moto.endpoint_url}/{bucket}/sst/", method="PUT")).close()  # noqa: S310  ours
    writer.put("sst/empty.nc", b"")
    use_environment(moto, monkeypatch)
    declared = archive(sources=(f"s3://{bucket}/sst/",), access=(place(moto, bucket),))

    listing = list_sources(declared)

    assert listing.num_requests == 2 + 1  # and one to see that the source is no file
    urls = listing.table["url"].to_pylist()
    assert len(urls) == 1201
    assert f"s3://{bucket}/sst/empty.nc" in urls
    assert urls == sorted(urls)


@pytest.mark.server
def test_a_bucket_that_is_not_there_is_told(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_environment(moto, monkeypatch)
    declared = archive(
        sources=("s3://no-such-bucket/*.nc",), access=(place(moto, "no-such-bucket"),)
    )

    with pytest.raises(IcestreamError, match="no-such-bucket") as caught:
        list_sources(declared)

    assert moto.secret_access_key not in str(caught.value)


@pytest.mark.server
def test_an_archive_on_azure_is_listed_and_read(
    azurite: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = azurite.new_container()
    arguments = azurite.storage_arguments()
    writer = azure_storage(
        container=container, prefix="sst", access_key=azurite.access_key, **arguments
    )
    for key in FILES:
        writer.put(key, b"data")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite.access_key)
    reached = SourcePlace(
        prefix=f"az://{container}/",
        account=azurite.account,
        endpoint_url=arguments["config"]["endpoint"],
        allow_http=True,
    )
    declared = archive(sources=(f"az://{container}/sst/**/*.nc",), access=(reached,))
    access = SourceAccess.of(declared)

    listing = list_sources(declared, access)

    assert len(listing) == 3
    check_listing(declared, access, listing)


@pytest.mark.server
def test_an_archive_on_gcs_is_listed_and_read(fake_gcs_server: GcsServer) -> None:
    bucket = fake_gcs_server.new_bucket()
    for key in FILES:
        fake_gcs_server.put(bucket, f"sst/{key}", b"data")
    reached = SourcePlace(
        prefix=f"gs://{bucket}/",
        endpoint_url=fake_gcs_server.store_options()["base_url"],
        allow_http=True,
        anonymous=True,
    )
    declared = archive(sources=(f"gs://{bucket}/sst/**/*.nc",), access=(reached,))

    listing = list_sources(declared)

    assert listing.table["url"].to_pylist()[0] == f"gs://{bucket}/sst/2020/a.nc"
    assert len(listing) == 3


@pytest.mark.server
@pytest.mark.parametrize("name", ["seaweedfs_storage", "moto_storage", "azurite_storage"])
def test_a_lease_on_a_remote_store_is_held_by_one(
    name: str, request: pytest.FixtureRequest
) -> None:
    storage: Storage = request.getfixturevalue(name)

    with Lease.take(storage, "sst") as lease, pytest.raises(ConflictError, match="is at it"):
        Lease.take(storage, "sst")
    lease.check()

    Lease.take(storage, "sst").release()
