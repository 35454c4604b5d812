"""Virtual chunks that one library sets have the same values in the other."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import icestream

LIBRARIES = (icestream, icechunk)
CHUNKS = 1200
"""More than the least number whose locations are compressed."""
VALUES = np.arange(2 * CHUNKS, dtype="<i4")
WRITTEN = 1_700_000_000
"""When the file was last changed, in epoch seconds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file that all chunks are in."""
    folder = tmp_path / "files"
    folder.mkdir()
    VALUES.tofile(folder / "values.i4")
    os.utime(folder / "values.i4", (WRITTEN, WRITTEN))
    return folder


def checksum(kind: str, file: Path) -> str | datetime | None:
    """Return what is recorded of a file."""
    status = file.stat()
    return {
        "none": None,
        "time": datetime.fromtimestamp(WRITTEN, UTC),
        # that of a file is made of inode, time and size, by both libraries
        "etag": f'"{status.st_ino:x}-{status.st_mtime_ns // 1000:x}-{status.st_size:x}"',
    }[kind]


def open_with(library: Any, place: Path, folder: Path, *, how: str = "open", **options: Any) -> Any:
    consent = {f"file://{folder}/": library.Credentials.LocalFileSystemAccess()}
    return getattr(library.Repository, how)(
        library.local_filesystem_storage(str(place)),
        authorize_virtual_chunk_access=library.containers_credentials(consent),
        **options,
    )


def write(library: Any, place: Path, folder: Path, *, named: bool, kind: str) -> None:
    """Create a repository whose chunks are parts of one file, with compressed locations."""
    compression = library.ManifestVirtualChunkLocationCompressionConfig()
    manifest = library.ManifestConfig(virtual_chunk_location_compression=compression)
    config = library.RepositoryConfig(manifest=manifest)
    store = library.local_filesystem_store(str(folder))
    prefix = f"file://{folder}/"
    config.set_virtual_chunk_container(
        library.VirtualChunkContainer(prefix, store, name="files" if named else None)
    )
    session = open_with(library, place, folder, how="create", config=config).writable_session(
        "main"
    )
    zarr.create_array(
        session.store, name="a", shape=VALUES.shape, chunks=(2,), dtype="<i4", compressors=None
    )
    session.store.set_virtual_refs_arr(
        "a",
        (CHUNKS,),
        # icechunk takes the relative form as it is given, and makes none
        ["vcc://files/values.i4" if named else f"{prefix}values.i4"] * CHUNKS,
        np.arange(CHUNKS, dtype=np.uint64) * np.uint64(8),
        np.full(CHUNKS, 8, np.uint64),
        checksum=checksum(kind, folder / "values.i4"),
    )
    session.commit("references")


@pytest.mark.parametrize("kind", ["none", "time", "etag"])
@pytest.mark.parametrize("form", ["absolute", "relative"])
@pytest.mark.parametrize("writer", LIBRARIES, ids=lambda library: library.__name__)
def test_values_are_the_same_in_both_until_the_file_changes(
    writer: Any, form: str, kind: str, folder: Path
) -> None:
    place = folder.parent / "repo"
    write(writer, place, folder, named=form == "relative", kind=kind)

    # on the local disk icechunk finds every ETag changed, with quotes and without, even its own
    for reader in (icestream,) if kind == "etag" else LIBRARIES:
        store = open_with(reader, place, folder).readonly_session("main").store
        array = zarr.open_array(store, path="a", mode="r")
        assert np.array_equal(np.asarray(array[:]), VALUES)

        os.utime(folder / "values.i4", (WRITTEN + 5, WRITTEN + 5))
        if kind == "none":
            assert array[3] == 3
        else:
            with pytest.raises((icechunk.IcechunkError, icestream.ObjectChangedError)):
                array[3]
        os.utime(folder / "values.i4", (WRITTEN, WRITTEN))
