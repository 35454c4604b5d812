"""A folder of a storage behaves like any storage, and keeps to itself."""

from pathlib import Path

import pytest

from icestream.errors import InvalidInputError
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.storage.subfolders import SubfolderStorage
from icestream.testing.storage_suite import StorageSuite


class TestSubfolderOfMemory(StorageSuite):
    shared_after_fork = False

    @pytest.fixture
    def storage(self) -> Storage:
        return SubfolderStorage(InMemoryStorage(), "datasets/one")


class TestSubfolderOfADirectory(StorageSuite):
    listed_objects = 50

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return SubfolderStorage(LocalStorage(tmp_path), "datasets/one")


def test_folders_do_not_see_each_other() -> None:
    parent = InMemoryStorage()
    one, other = SubfolderStorage(parent, "one"), SubfolderStorage(parent, "oneself")
    one.put("a", b"1")
    other.put("a", b"2")

    assert [info.path for info in one.list()] == ["a"]
    assert parent.get("one/a") == b"1"
    assert one.head("a").path == "a"


@pytest.mark.parametrize("folder", ["", "/", "a/", "/a"])
def test_a_folder_is_a_path_without_slashes_at_its_ends(folder: str) -> None:
    with pytest.raises(InvalidInputError, match="no folder"):
        SubfolderStorage(InMemoryStorage(), folder)
