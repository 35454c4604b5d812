"""The measured operations on virtual chunks: reading their bytes, listing their locations."""

import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import zarr

from benchmarks.cases import Case, Checksums, Shape, repository_folder
from benchmarks.columns import CHUNKS_PER_FILE
from benchmarks.libraries import ICECHUNK, ICESTREAM, Place
from benchmarks.measuring import measured
from benchmarks.runs import (
    BRANCH,
    CHUNK_ITEMS,
    CHUNKS,
    Metrics,
    Run,
    load_pandas,
    open_array,
    warm,
)
from benchmarks.server_address import ServerAddress

_CHUNK_BYTES = CHUNK_ITEMS * 8

# -- reading --------------------------------------------------------------------------------------


def read_chunks_of_file(run: Run) -> Metrics:
    """Read an array through zarr whose chunks of 4 kB are parts of one local file."""
    return _read(run, run.library.files_in(run.work))


def read_chunks_on_server(run: Run) -> Metrics:
    """Read an array through zarr whose chunks of 4 kB are parts of one object on a slow server."""
    return _read(run, run.library.bucket_on(_server_of(run)))


def _read(run: Run, place: Place) -> Metrics:
    session = run.library.open(run.virtual, place).readonly_session(BRANCH)
    array = open_array(session, CHUNKS)
    # the manifest comes into memory, and no byte of a chunk
    assert int(session.chunk_type(f"/{CHUNKS}", [0])) > 0
    with measured() as cost:
        values = np.asarray(array[:])
    assert np.array_equal(values, _values(run.case))
    return asdict(cost) | {"chunks_per_s": run.case.references / cost.wall_s}


# -- listing --------------------------------------------------------------------------------------


def list_locations(run: Run) -> Metrics:
    """List the location of each reference, which the manifest has as plain texts."""
    return _list(run, ICESTREAM, _all_locations)


def list_compressed_locations(run: Run) -> Metrics:
    """List the location of each reference, which the manifest has compressed with a dictionary."""
    return _list(run, ICECHUNK, _all_locations)


def list_objects(run: Run) -> Metrics:
    """List the distinct objects that references point at."""
    return _list(run, ICESTREAM, _distinct_objects)


def list_object_columns(run: Run) -> Metrics:
    """List the distinct objects that references point at, as Arrow texts where there are such."""
    return _list(run, ICESTREAM, _object_columns)


def _list(run: Run, writer: str, find: Callable[[Any], Collection[Any]]) -> Metrics:
    folder = repository_folder(run.work, writer, run.case)
    session = run.library.open(folder).readonly_session(BRANCH)
    warm(session)
    load_pandas()
    with measured() as cost:
        found = find(session)
    per_object = CHUNKS_PER_FILE if run.case.shape is Shape.FILE else 1
    objects = -(-run.case.references // per_object)
    assert len(found) == (run.case.references if find is _all_locations else objects)
    texts = found.to_pylist() if isinstance(found, pa.ChunkedArray) else found
    assert len(set(texts)) == objects
    return asdict(cost)


def _all_locations(session: Any) -> Collection[str]:
    locations: list[str] = session.all_virtual_chunk_locations()
    return locations


def _distinct_objects(session: Any) -> Collection[str]:
    if hasattr(session, "iter_virtual_chunk_locations"):
        return list(session.iter_virtual_chunk_locations(distinct=True))
    return set(session.all_virtual_chunk_locations())  # icechunk has no other way


def _object_columns(session: Any) -> Collection[Any]:
    if not hasattr(session, "iter_virtual_chunk_location_batches"):
        return _distinct_objects(session)
    [column] = session.iter_virtual_chunk_location_batches()  # there is one manifest
    found: Collection[Any] = column
    return found


# -- preparing ------------------------------------------------------------------------------------


def prepare_chunks_of_file(run: Run) -> Metrics:
    """Write a local file, and a repository whose chunks are parts of it."""
    file = run.work / f"values-{run.case.references}.f8"
    if not file.exists():
        _values(run.case).tofile(file)
    _refer(run, run.library.files_in(run.work), file.name)
    return {}


def prepare_chunks_on_server(run: Run) -> Metrics:
    """Write an object to the server, and a repository whose chunks are parts of it."""
    server = _server_of(run)
    # an object of its own: uploading it again would change what others recorded of it
    key = f"{run.virtual.name}.f8"
    _upload(server, key, _values(run.case).tobytes())
    _refer(run, run.library.bucket_on(server), key)
    return {}


def _refer(run: Run, place: Place, key: str) -> None:
    """Make a repository with references to the parts of an object."""
    chunks = run.case.references
    shutil.rmtree(run.virtual, ignore_errors=True)
    session = run.library.create(run.virtual, place).writable_session(BRANCH)
    zarr.create_group(session.store).create_array(
        CHUNKS,
        shape=(chunks * CHUNK_ITEMS,),
        chunks=(CHUNK_ITEMS,),
        dtype="f8",
        compressors=None,
    )
    session.store.set_virtual_refs_arr(
        CHUNKS,
        (chunks,),
        [place.prefix + key] * chunks,
        np.arange(chunks, dtype=np.uint64) * _CHUNK_BYTES,
        np.full(chunks, _CHUNK_BYTES, np.uint64),
        checksum=_soon() if run.case.checksums is Checksums.ONE else None,
    )
    session.commit("references")


def _values(case: Case) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.arange(case.references * CHUNK_ITEMS, dtype=np.float64)


def _soon() -> datetime:
    """Return a time after which an object that was just written has not changed."""
    return datetime.fromtimestamp(int(time.time()) + 2, UTC)


def _upload(server: ServerAddress, key: str, data: bytes) -> None:
    from icestream.storage import s3_storage

    storage = s3_storage(
        bucket=server.bucket,
        prefix="",
        endpoint_url=server.direct_url,
        allow_http=True,
        region="us-east-1",
        force_path_style=True,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )
    storage.put(key, data)


def _server_of(run: Run) -> ServerAddress:
    if run.server is None:
        raise ValueError(f"{run.case.operation} needs a server")
    return run.server


OPERATIONS: tuple[Callable[[Run], Metrics], ...] = (
    read_chunks_of_file,
    read_chunks_on_server,
    list_locations,
    list_compressed_locations,
    list_objects,
    list_object_columns,
    prepare_chunks_of_file,
    prepare_chunks_on_server,
)
