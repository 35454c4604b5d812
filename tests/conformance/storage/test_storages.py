"""Every backend passes the storage suite; what only reads passes the part about reading."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from icestream.credentials import gcs_credentials
from icestream.storage import ObjectStoreConfig, Storage, gcs_storage
from icestream.storage.containers import open_container
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.testing.conditional_reads import ConditionalReadSuite, Write
from icestream.testing.fake_servers import FakeGcs, FakeWebServer
from icestream.testing.servers import GcsServer, WebServer
from icestream.testing.storage_suite import StorageSuite


class TestLocalStorage(StorageSuite):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "made" / "when" / "needed")


class TestLocalStorageThatSyncsEverything(StorageSuite):
    listed_objects = 50

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path, sync="always")


class TestInMemoryStorage(StorageSuite):
    shared_after_fork = False

    @pytest.fixture
    def storage(self) -> Storage:
        return InMemoryStorage()


@pytest.mark.server
class TestSeaweedFS(StorageSuite):
    @pytest.fixture
    def storage(self, seaweedfs_storage: Storage) -> Storage:
        return seaweedfs_storage


@pytest.mark.server
class TestMoto(StorageSuite):
    # moto 5.2 looks at If-Match and stores the object without a lock between, on many threads:
    # seen to accept two writers of one version. SeaweedFS and Azurite stand for the races.
    conditions_are_atomic = False

    @pytest.fixture
    def storage(self, moto_storage: Storage) -> Storage:
        return moto_storage


@pytest.mark.server
class TestAzurite(StorageSuite):
    increments: ClassVar[int] = 5

    @pytest.fixture
    def storage(self, azurite_storage: Storage) -> Storage:
        return azurite_storage


class TestFakeGcs(StorageSuite):
    # many small requests to a server in Python, in this very process
    listed_objects = 1005
    increments: ClassVar[int] = 3

    @pytest.fixture
    def server(self) -> Iterator[FakeGcs]:
        with FakeGcs({"bucket": "token"}) as server:
            yield server

    @pytest.fixture
    def storage(self, server: FakeGcs) -> Storage:
        return gcs_storage(
            bucket="bucket", prefix="repo", bearer_token="token", config=server.store_options()
        )


class TestContainerOnFakeGcs(ConditionalReadSuite):
    @pytest.fixture
    def server(self) -> Iterator[FakeGcs]:
        with FakeGcs({"bucket": "token"}) as server:
            yield server

    @pytest.fixture
    def storage(self, server: FakeGcs) -> Storage:
        store = ObjectStoreConfig.Gcs(server.store_options())
        return open_container(store, gcs_credentials(bearer_token="token"), bucket="bucket")

    @pytest.fixture
    def write(self, server: FakeGcs) -> Write:
        return lambda path, data: server.put(f"/bucket/{path}", data)


@pytest.mark.server
class TestFakeGcsServerWhichIgnoresConditions(ConditionalReadSuite):
    @pytest.fixture
    def bucket(self, fake_gcs_server: GcsServer) -> str:
        return fake_gcs_server.new_bucket()

    @pytest.fixture
    def storage(self, fake_gcs_server: GcsServer, bucket: str) -> Storage:
        return open_container(ObjectStoreConfig.Gcs(fake_gcs_server.store_options()), bucket=bucket)

    @pytest.fixture
    def write(self, fake_gcs_server: GcsServer, bucket: str) -> Write:
        return lambda path, data: fake_gcs_server.put(bucket, path, data)


@pytest.mark.server
class TestCaddy(ConditionalReadSuite):
    @pytest.fixture
    def storage(self, caddy: WebServer) -> Storage:
        return open_container(ObjectStoreConfig.Http(), bucket=caddy.host, scheme="http")

    @pytest.fixture
    def write(self, caddy: WebServer) -> Write:
        return caddy.put


class TestFakeWebServer(ConditionalReadSuite):
    @pytest.fixture(params=[True, False], ids=["with conditions", "without conditions"])
    def server(self, request: pytest.FixtureRequest) -> Iterator[FakeWebServer]:
        with FakeWebServer(conditions=request.param) as server:
            yield server

    @pytest.fixture
    def storage(self, server: FakeWebServer) -> Storage:
        return open_container(ObjectStoreConfig.Http(), bucket=server.host, scheme="http")

    @pytest.fixture
    def write(self, server: FakeWebServer) -> Write:
        return lambda path, data: server.put(f"/{path}", data)


class TestLocalFiles(ConditionalReadSuite):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        store = ObjectStoreConfig.LocalFileSystem(str(tmp_path.parent))
        return open_container(store, bucket=tmp_path.name)

    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        return lambda path, data: (tmp_path / path).write_bytes(data)
