"""Files of other programs: their own names, reading only, nothing but files."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icestream.errors import ErrorKind, InvalidInputError, NotFoundError, ReadOnlyError
from icestream.storage.local_files import LocalFiles
from icestream.storage.protocol import Storage, Version

NAMES = ("a b", "hash#1", "percent%41", "tilde~", "mañana.nc", "quest?star*", "x=1/y=2/part")


@pytest.mark.parametrize("name", NAMES)
def test_reads_a_file_by_the_name_that_it_has(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(name.encode())
    storage = LocalFiles(str(tmp_path))

    assert storage.get(name) == name.encode()
    assert storage.head(name).path == name
    assert [info.path for info in storage.list()] == [name]
    assert [info.path for info in storage.list(name[:2])] == [name]


def test_reads_from_the_root_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123")

    assert LocalFiles("/").get(f"{tmp_path}/a".removeprefix("/"), (1, 3)) == b"12"


@pytest.mark.parametrize("path", ["../a", "b/../../a", "/a", "", "b//a", "b/./a", "a\0"])
def test_does_not_leave_its_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").write_bytes(b"secret")
    folder = tmp_path / "b"
    folder.mkdir()

    for read in (LocalFiles(str(folder)).get, LocalFiles(str(folder)).head):
        with pytest.raises(InvalidInputError):
            read(path)


def test_pipes_devices_and_folders_are_not_objects(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    reads: list[tuple[Storage, str]] = [
        (LocalFiles(str(tmp_path)), "pipe"),
        (LocalFiles(str(tmp_path)), "folder"),
        (LocalFiles("/dev"), "zero"),
    ]
    for storage, name in reads:
        for read in (storage.get, storage.get_if_unchanged, storage.head):
            with pytest.raises(NotFoundError):
                read(name)
        with pytest.raises(NotFoundError):
            storage.get(name, (0, 4))


WRITES: dict[str, Callable[[Storage], Any]] = {
    "put": lambda storage: storage.put("a", b"x"),
    "create": lambda storage: storage.put_if_absent("b", b"x"),
    "replace": lambda storage: storage.put_if_version("a", b"x", Version("1")),
    "delete": lambda storage: storage.delete_many(["a"]),
}


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written(tmp_path: Path, write: str) -> None:
    (tmp_path / "a").write_bytes(b"0123")
    storage = LocalFiles(str(tmp_path))

    assert storage.read_only
    with pytest.raises(ReadOnlyError) as caught:
        WRITES[write](storage)
    assert caught.value.kind is ErrorKind.READ_ONLY_STORAGE
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"0123"


def test_a_copy_reads_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "a#1").write_bytes(b"0123")

    assert pickle.loads(pickle.dumps(LocalFiles(str(tmp_path)))).get("a#1") == b"0123"
