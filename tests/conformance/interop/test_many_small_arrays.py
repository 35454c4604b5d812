"""Hundreds of small arrays in one manifest: icechunk reads the same values."""

from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import icestream
from icestream.codec.manifests import decode_manifest

COUNT = 300
SHAPES: tuple[tuple[int, ...], ...] = ((), (4,), (2, 3, 2))
LARGE = (1024,)
"""Chunks of such an array are not kept in the manifest."""


def values_of(number: int) -> Any:
    shape = LARGE if number % 10 == 0 else SHAPES[number % 3]
    return np.arange(int(np.prod(shape)), dtype="f8").reshape(shape) + number


def write_arrays(session: Any) -> None:
    root = zarr.create_group(session.store)
    for i in range(COUNT):
        values = values_of(i)
        chunks = (512,) if values.shape == LARGE else tuple(-(-n // 2) for n in values.shape)
        root.create_array(f"a{i}", shape=values.shape, chunks=chunks, dtype="f8")[...] = values
    root.create_array("virtual", shape=(COUNT,), chunks=(1,), dtype="f8")
    for i in range(0, COUNT, 2):
        session.store.set_virtual_ref(
            f"virtual/c/{i}", f"s3://bucket/{i}", offset=i, length=8, validate_container=False
        )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A repository of icestream with all arrays in one manifest."""
    storage = icestream.local_filesystem_storage(str(tmp_path))
    session = icestream.Repository.create(storage).writable_session("main")
    write_arrays(session)
    session.commit("arrays")
    (manifest,) = (tmp_path / "manifests").iterdir()
    assert len(decode_manifest(manifest.read_bytes(), name="m").arrays) == COUNT + 1
    return tmp_path


def assert_values(session: Any) -> None:
    root = zarr.open_group(session.store, mode="r")
    for i in range(COUNT):
        np.testing.assert_array_equal(root[f"a{i}"][...], values_of(i), err_msg=f"a{i}")
    locations = {f"s3://bucket/{i}" for i in range(0, COUNT, 2)}
    assert set(session.all_virtual_chunk_locations()) == locations


@pytest.mark.parametrize("library", [icechunk, icestream], ids=lambda library: library.__name__)
def test_all_values_of_a_packed_manifest_are_read(archive: Path, library: Any) -> None:
    repo = library.Repository.open(library.local_filesystem_storage(str(archive)))

    assert_values(repo.readonly_session("main"))


def test_icechunk_splits_what_was_packed_and_keeps_the_values(archive: Path) -> None:
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(archive)))
    repo.rewrite_manifests("again", branch="main")

    ours = icestream.Repository.open(icestream.local_filesystem_storage(str(archive)))
    assert_values(ours.readonly_session("main"))


def test_the_manifests_of_icechunk_are_read(tmp_path: Path) -> None:
    storage = icechunk.local_filesystem_storage(str(tmp_path))
    session = icechunk.Repository.create(storage).writable_session("main")
    write_arrays(session)
    session.commit("arrays")

    ours = icestream.Repository.open(icestream.local_filesystem_storage(str(tmp_path)))
    assert_values(ours.readonly_session("main"))
