"""Every backend passes the storage suite."""

from pathlib import Path
from typing import ClassVar

import pytest

from icestream.storage import Storage
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
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
