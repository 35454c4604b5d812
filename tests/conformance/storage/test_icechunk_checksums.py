"""The checksums of local files that icechunk and we record are the same."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from icestream.errors import ObjectChangedError
from icestream.storage.local_files import LocalFiles

DATA = np.arange(4, dtype="<i4")


def _read_by_icechunk(folder: Path, checksum: str | datetime) -> Any:
    """Read a virtual chunk of the file `data` with this checksum."""
    prefix = f"file://{folder}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(folder)))
    )
    repo = icechunk.Repository.create(
        icechunk.in_memory_storage(),
        config=config,
        authorize_virtual_chunk_access={prefix: icechunk.credentials.LocalFileSystemAccess},
    )
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, shape=4, chunks=4, dtype="i4", compressors=None, filters=None
    )
    session.store.set_virtual_ref("c/0", f"{prefix}data", offset=0, length=16, checksum=checksum)
    return array[:]


def _etag(folder: Path) -> str:
    etag = LocalFiles(str(folder)).head("data").version.etag
    assert etag is not None
    return etag


def test_one_spelling_of_an_etag_is_accepted_by_both_until_the_file_changes(
    tmp_path: Path,
) -> None:
    file = tmp_path / "data"
    file.write_bytes(DATA.tobytes())
    # icechunk 2.3 takes one pair of quotes off, and compares the rest with an ETag in quotes:
    # of local files, it refuses every ETag that is not quoted twice
    etag = f'""{_etag(tmp_path)}""'
    ours = LocalFiles(str(tmp_path))

    np.testing.assert_array_equal(_read_by_icechunk(tmp_path, etag), DATA)
    assert ours.get_if_unchanged("data", etag=etag) == DATA.tobytes()
    file.write_bytes(DATA.tobytes() + b"more")
    with pytest.raises(icechunk.IcechunkError, match="checksum"):
        _read_by_icechunk(tmp_path, etag)
    with pytest.raises(ObjectChangedError):
        ours.get_if_unchanged("data", etag=etag)


def test_both_compare_the_time_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(DATA.tobytes())
    ours = LocalFiles(str(tmp_path))
    later = datetime.now(UTC) + timedelta(seconds=2)
    earlier = later - timedelta(minutes=1)

    assert ours.get_if_unchanged("data", (0, 16), not_after=later) == DATA.tobytes()
    np.testing.assert_array_equal(_read_by_icechunk(tmp_path, later), DATA)
    with pytest.raises(ObjectChangedError):
        ours.get_if_unchanged("data", (0, 16), not_after=earlier)
    with pytest.raises(icechunk.IcechunkError):
        _read_by_icechunk(tmp_path, earlier)
