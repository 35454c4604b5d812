"""Virtual chunks that one library sets have the same values in the other."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import icechunk
import numpy as np
import pytest
import zarr

import icestream

LIBRARIES = (icestream, icechunk)
CHUNKS = 1200
"""More than the least number whose locations are compressed."""
VALUES = np.arange(2 * CHUNKS, dtype="<i4")
NAMES = [f"values-{chunk:04}.i4" for chunk in range(CHUNKS)]
"""One for each chunk: what is to be compressed are distinct locations."""
WRITTEN = 1_700_000_000
"""When the file was last changed, in epoch seconds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file that all chunks are in, which has a name for each of them."""
    folder = tmp_path / "files"
    folder.mkdir()
    VALUES.tofile(folder / NAMES[0])
    for name in NAMES[1:]:
        (folder / name).hardlink_to(folder / NAMES[0])
    os.utime(folder / NAMES[0], (WRITTEN, WRITTEN))
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


def compressed_locations(place: Path) -> int:
    """Return how many locations are compressed in all manifests of a repository."""
    repo = icestream.Repository.open(icestream.local_filesystem_storage(str(place)))
    documents = [repo.inspect_manifest(file.name) for file in (place / "manifests").iterdir()]
    return sum(document["compression"]["num_compressed_refs"] for document in documents)


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
        [f"{'vcc://files/' if named else prefix}{name}" for name in NAMES],
        np.arange(CHUNKS, dtype=np.uint64) * np.uint64(8),
        np.full(CHUNKS, 8, np.uint64),
        checksum=checksum(kind, folder / NAMES[0]),
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
    assert compressed_locations(place) == CHUNKS

    # on the local disk icechunk finds every ETag changed, with quotes and without, even its own
    for reader in (icestream,) if kind == "etag" else LIBRARIES:
        store = open_with(reader, place, folder).readonly_session("main").store
        array = zarr.open_array(store, path="a", mode="r")
        assert np.array_equal(np.asarray(array[:]), VALUES)

        os.utime(folder / NAMES[0], (WRITTEN + 5, WRITTEN + 5))
        if kind == "none":
            assert array[3] == 3
        else:
            with pytest.raises((icechunk.IcechunkError, icestream.ObjectChangedError)):
                array[3]
        os.utime(folder / NAMES[0], (WRITTEN, WRITTEN))


# -- ETags of a server with the S3 interface -------------------------------------------------------


class Archive:
    """One object on an S3 server, and a repository there whose chunks are parts of it."""

    def __init__(self, server: Any, bucket: str) -> None:
        self.server = server
        self.bucket = bucket
        self.folder = f"archive-{uuid4().hex}"
        self.prefix = f"s3://{bucket}/{self.folder}/files/"
        self.objects = icestream.s3_storage(
            bucket=bucket, prefix=f"{self.folder}/files", **server.storage_arguments()
        )
        self.objects.put("values.i4", VALUES.tobytes())

    def open(self, library: Any, *, how: str = "open", **options: Any) -> Any:
        """Open the repository with a library, and let it read the object."""
        server = self.server
        keys = library.s3_credentials(
            access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
        )
        consent = {self.prefix: keys}
        if library is icestream:
            consent[server.endpoint_url] = None
        return getattr(library.Repository, how)(
            library.s3_storage(
                bucket=self.bucket, prefix=f"{self.folder}/repo", **server.storage_arguments()
            ),
            authorize_virtual_chunk_access=library.containers_credentials(consent),
            **options,
        )

    def write(self, library: Any, etag: str) -> None:
        """Create the repository with a library, which records the ETag."""
        config = library.RepositoryConfig()
        place = library.s3_store(
            region="us-east-1",
            endpoint_url=self.server.endpoint_url,
            allow_http=True,
            force_path_style=True,
            s3_compatible=True,
        )
        config.set_virtual_chunk_container(library.VirtualChunkContainer(self.prefix, place))
        session = self.open(library, how="create", config=config).writable_session("main")
        zarr.create_array(
            session.store, name="a", shape=VALUES.shape, chunks=(2,), dtype="<i4", compressors=None
        )
        session.store.set_virtual_refs_arr(
            "a",
            (CHUNKS,),
            [f"{self.prefix}values.i4"] * CHUNKS,
            np.arange(CHUNKS, dtype=np.uint64) * np.uint64(8),
            np.full(CHUNKS, 8, np.uint64),
            checksum=etag,
        )
        session.commit("references")

    def array(self, library: Any) -> Any:
        """Return the array, as a library reads it."""
        session = self.open(library).readonly_session("main")
        return zarr.open_array(session.store, path="a", mode="r")


@pytest.mark.server
@pytest.mark.parametrize("quoted", [False, True], ids=["bare", "quoted"])
@pytest.mark.parametrize("writer", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize("server_name", ["moto", "seaweedfs"])
def test_an_etag_on_s3_holds_in_both_until_the_object_changes(
    request: pytest.FixtureRequest, server_name: str, writer: Any, *, quoted: bool
) -> None:
    icechunk.set_logs_filter("error")
    server = request.getfixturevalue(server_name)
    on_moto = server_name == "moto"
    bucket = server.new_bucket() if on_moto else request.getfixturevalue("seaweedfs_bucket")
    archive = Archive(server, bucket)
    etag = (archive.objects.head("values.i4").version.etag or "").strip('"')
    archive.write(writer, f'"{etag}"' if quoted else etag)

    for reader in LIBRARIES:
        assert np.array_equal(np.asarray(archive.array(reader)[:]), VALUES)

    archive.objects.put("values.i4", VALUES[::-1].tobytes())
    with pytest.raises(icestream.ObjectChangedError) as caught:
        archive.array(icestream)[3]
    assert caught.value.recorded == etag
    with pytest.raises(icechunk.IcechunkError, match="checksum"):
        archive.array(icechunk)[3]
