"""The use cases of virtual chunks, each on servers on loopback."""

from typing import Any

import numpy as np
import pytest
import zarr

import icestream as ice
from icestream.testing.fake_servers import FakeGcs, FakeS3

pytestmark = pytest.mark.server

VALUES = np.arange(64, dtype="<i4")
CHUNK_BYTES = 16
CHUNKS = VALUES.nbytes // CHUNK_BYTES


def add_array(session: ice.Session, name: str, location: str, **options: Any) -> None:
    """Let an array be the values in one foreign object."""
    zarr.create_array(
        session.store, name=name, shape=VALUES.shape, chunks=(4,), dtype="<i4", compressors=None
    )
    session.store.set_virtual_refs_arr(
        name,
        (CHUNKS,),
        [location] * CHUNKS,
        np.arange(CHUNKS, dtype=np.uint64) * CHUNK_BYTES,
        np.full(CHUNKS, CHUNK_BYTES, np.uint64),
        **options,
    )


def read(repo: ice.Repository, name: str = "a") -> list[int]:
    found: list[int] = zarr.open_array(repo.readonly_session("main").store, path=name, mode="r")[
        :
    ].tolist()
    return found


def bucket_of(server: Any, key: str, data: bytes, region: str = "us-east-1") -> str:
    """Return a new bucket that holds one object."""
    bucket: str = server.new_bucket()
    arguments = server.storage_arguments() | {"region": region}
    ice.s3_storage(bucket=bucket, prefix="", **arguments).put(key, data)
    return bucket


def own_storage(server: Any) -> ice.Storage:
    return ice.s3_storage(bucket=server.new_bucket(), prefix="repo", **server.storage_arguments())


def s3_place(server: Any, **options: Any) -> Any:
    return ice.s3_store(
        endpoint_url=server.endpoint_url,
        allow_http=True,
        force_path_style=True,
        s3_compatible=True,
        **options,
    )


def keys_of(server: Any) -> Any:
    return ice.s3_credentials(
        access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
    )


def test_basic_usage_needs_one_argument(seaweedfs):
    """One platform, one region, one set of credentials: those of the repository."""
    bucket = bucket_of(seaweedfs, "data.nc", VALUES.tobytes())
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer.of(
            name="s3", prefix="s3", object_store="s3_compatible", allow_http=True
        )
    )
    storage = own_storage(seaweedfs)
    repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access={"s3": None})
    session = repo.writable_session("main")
    add_array(session, "a", f"s3://{bucket}/data.nc")
    session.commit("virtual")

    for credentials in (None, keys_of(seaweedfs)):
        consent = {"s3": credentials, seaweedfs.endpoint_url: None}
        reader = ice.Repository.open(storage, authorize_virtual_chunk_access=consent)
        assert read(reader) == VALUES.tolist()
    assert read(ice.Repository.open(storage, authorize_virtual_chunk_access={"s3": None})) == (
        VALUES.tolist()
    )
    with pytest.raises(ice.AccessError, match="authorize_virtual_chunk_access"):
        read(ice.Repository.open(storage))


def test_another_region_is_a_persistent_container(moto):
    """A container with prefix s3:// and a region replaces the default one."""
    bucket = bucket_of(moto, "data.nc", VALUES.tobytes(), region="sa-east-1")
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer.of(
            name="s3",
            prefix="s3://",
            object_store="s3_compatible",
            region="sa-east-1",
            endpoint_url=moto.endpoint_url,
            allow_http=True,
            force_path_style=True,
        )
    )
    storage = own_storage(moto)
    repo = ice.Repository.create(
        storage, config, authorize_virtual_chunk_access={"s3://": keys_of(moto)}
    )
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, "a", f"s3://{bucket}/data.nc")

    reader = ice.Repository.open(storage, authorize_virtual_chunk_access={"s3://": keys_of(moto)})
    assert read(reader) == VALUES.tolist()
    assert reader.config.list_virtual_chunk_containers()[0].name == "s3"


@pytest.mark.parametrize("where", ["stored", "at open"])
def test_requests_are_signed_for_the_region_of_the_container(where: str) -> None:
    """The servers above take any region; this fake of ours, like S3, does not."""
    with FakeS3({"theirs": "sa-east-1"}, region="sa-east-1") as server:
        server.put("/theirs/data.nc", VALUES.tobytes())
        config = ice.RepositoryConfig()
        config.set_virtual_chunk_container(
            ice.VirtualChunkContainer.of(
                prefix="s3://",
                object_store="s3_compatible",
                region="sa-east-1",
                endpoint_url=server.url,
                allow_http=True,
                force_path_style=True,
            )
        )
        consent = {
            "s3://": ice.s3_credentials(access_key_id="id", secret_access_key="key"),
            server.url: None,
        }
        storage = ice.in_memory_storage()
        ice.Repository.create(storage, config if where == "stored" else None)
        repo = ice.Repository.open(
            storage,
            config if where == "at open" else None,
            authorize_virtual_chunk_access=consent,
        )
        with repo.transaction("main", message="virtual") as store:
            add_array(store.session, "a", "s3://theirs/data.nc")

        assert read(repo) == VALUES.tolist()
        assert all("/sa-east-1/s3/" in r.headers["authorization"] for r in server.requests)


def test_a_repository_on_s3_with_chunks_on_gcs(moto, fake_gcs_server):
    bucket = fake_gcs_server.new_bucket()
    fake_gcs_server.put(bucket, "data.nc", VALUES.tobytes())
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer.of(
            name="gcs",
            prefix="gcs",
            object_store="gcs",
            region="africa-south1",
            endpoint_url=f"http://127.0.0.1:{fake_gcs_server.port}",
            allow_http=True,
            anonymous=True,
        )
    )
    consent = {
        "gcs": ice.gcs_credentials(anonymous=True),
        f"http://127.0.0.1:{fake_gcs_server.port}": None,
    }
    storage = own_storage(moto)
    repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access=consent)
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, "a", f"gcs://{bucket}/data.nc")

    assert read(ice.Repository.open(storage, authorize_virtual_chunk_access=consent)) == (
        VALUES.tolist()
    )


def test_one_prefix_goes_to_a_local_server_for_tests(moto, seaweedfs):
    """Stored: everything on one server. Given at open: one prefix is read from another."""
    remote = bucket_of(moto, "prefix/other.nc", VALUES.tobytes())
    place = ice.VirtualChunkContainer(
        "s3://", s3_place(moto, region="us-east-1"), name="everything"
    )
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(place)
    consent = {"s3://": keys_of(moto), moto.endpoint_url: None}
    storage = own_storage(moto)
    repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access=consent)
    local_values = (VALUES * 2).tobytes()
    ice.s3_storage(
        bucket=_same_bucket(seaweedfs, remote), prefix="", **seaweedfs.storage_arguments()
    ).put("prefix/array/data.nc", local_values)
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, "other", f"s3://{remote}/prefix/other.nc")
        add_array(store.session, "a", f"s3://{remote}/prefix/array/data.nc")

    override = ice.RepositoryConfig()
    override.set_virtual_chunk_container(
        ice.VirtualChunkContainer.of(
            name="minio-override",
            prefix=f"s3://{remote}/prefix/array",
            object_store="minio",
            endpoint_url=f"localhost:{seaweedfs.port}",
            allow_http=True,
        )
    )
    tested = ice.Repository.open(
        storage,
        override,
        authorize_virtual_chunk_access=consent
        | {f"s3://{remote}/prefix/array/": keys_of(seaweedfs)},
    )
    assert read(tested, "a") == (VALUES * 2).tolist()
    assert read(tested, "other") == VALUES.tolist()
    stored = ice.Repository.fetch_config(storage)
    assert stored is not None
    assert [c.name for c in stored.list_virtual_chunk_containers()] == ["everything"]


def _same_bucket(server: Any, name: str) -> str:
    """Make a bucket of a given name on another server."""
    from icestream.testing import servers

    method = "POST" if server.bucket_path else "PUT"
    servers._request(server.bucket_port, method, f"{server.bucket_path}/{name}/")
    return name


def test_three_buckets_on_two_platforms_with_four_sets_of_credentials(moto, seaweedfs):
    bucket_c = bucket_of(seaweedfs, "c.nc", (VALUES * 3).tobytes())
    with FakeGcs({"virtual-a": "token-a", "virtual-b": "token-b"}) as gcs:
        gcs.put("/virtual-a/a.nc", VALUES.tobytes())
        gcs.put("/virtual-b/b.nc", (VALUES * 2).tobytes())
        config = ice.RepositoryConfig()
        for name, prefix, store in (
            ("modela", "modela://virtual-a", ice.gcs_store(gcs.store_options())),
            ("modelb", "modelb://virtual-b", ice.gcs_store(gcs.store_options())),
            ("modelc", f"modelc://{bucket_c}", s3_place(seaweedfs, region="us-east-1")),
        ):
            config.set_virtual_chunk_container(ice.VirtualChunkContainer(prefix, store, name=name))
        consent = {
            "modela://virtual-a": ice.gcs_credentials(bearer_token="token-a"),
            "modelb://virtual-b": ice.gcs_credentials(bearer_token="token-b"),
            f"modelc://{bucket_c}": keys_of(seaweedfs),
            gcs.url: None,
            seaweedfs.endpoint_url: None,
        }
        storage = own_storage(moto)
        repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access=consent)
        with repo.transaction("main", message="virtual") as store:
            add_array(store.session, "a", "modela://virtual-a/a.nc")
            add_array(store.session, "b", "modelb://virtual-b/b.nc")
            add_array(store.session, "c", f"modelc://{bucket_c}/c.nc")

        reader = ice.Repository.open(storage, authorize_virtual_chunk_access=consent)
        assert read(reader, "a") == VALUES.tolist()
        assert read(reader, "b") == (VALUES * 2).tolist()
        assert read(reader, "c") == (VALUES * 3).tolist()
        needs = {need.name: need for need in reader.required_credentials()}
        assert set(needs) == {"modela", "modelb", "modelc"}
        assert all(need.is_authorized and need.is_supplied for need in needs.values())
        wrong = consent | {"modela://virtual-a": ice.gcs_credentials(bearer_token="token-b")}
        with pytest.raises(ice.StorageError, match=r"modela://virtual-a/a\.nc") as raised:
            read(ice.Repository.open(storage, authorize_virtual_chunk_access=wrong), "a")
        assert raised.value.kind is ice.ErrorKind.PERMISSION_DENIED
        assert "token-b" not in str(raised.value)


def test_chunks_on_a_web_server(caddy, tmp_path):
    caddy.put("files/data.nc", VALUES.tobytes())
    location = f"http://{caddy.host}/files/data.nc"
    consent = {f"http://{caddy.host}/": None}
    storage = ice.local_filesystem_storage(str(tmp_path))
    repo = ice.Repository.create(storage, authorize_virtual_chunk_access=consent)
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, "a", location)

    assert read(repo) == VALUES.tolist()
    with pytest.raises(ice.AccessError):
        read(ice.Repository.open(storage, authorize_virtual_chunk_access={"http": None}))


def test_chunks_in_azure(azurite, tmp_path):
    container = azurite.new_container()
    ice.azure_storage(
        container=container,
        prefix="",
        access_key=azurite.access_key,
        **azurite.storage_arguments(),
    ).put("data.nc", VALUES.tobytes())
    arguments = azurite.storage_arguments()
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(
            f"az://{container}/",
            ice.storage.azure_store(account=arguments["account"], config=arguments["config"]),
            name="blobs",
        )
    )
    consent = {
        f"az://{container}/": ice.azure_credentials(access_key=azurite.access_key),
        f"http://127.0.0.1:{azurite.port}": None,
    }
    repo = ice.Repository.create(
        ice.local_filesystem_storage(str(tmp_path)),
        config,
        authorize_virtual_chunk_access=consent,
    )
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, "a", f"az://{container}/data.nc")

    assert read(repo) == VALUES.tolist()
    assert repo.readonly_session("main").all_virtual_chunk_locations()[0].endswith("/data.nc")
