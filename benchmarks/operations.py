"""The measured operations. Each runs in a process of its own and returns what it cost."""

import asyncio
import pickle
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks import (
    ledger_measures,
    listing_operations,
    opening_operations,
    packing_operations,
    pipeline_operations,
    virtual_operations,
)
from benchmarks.cases import Case, Inputs, repository_folder
from benchmarks.columns import CHECKSUM, ReferenceColumns, build_columns, grid_of
from benchmarks.libraries import ICECHUNK
from benchmarks.measuring import MEGABYTE, evict, folder_bytes, measured
from benchmarks.runs import (
    BRANCH,
    CHUNK_ITEMS,
    CHUNKS,
    DATA,
    Metrics,
    Run,
    load_pandas,
    open_array,
    warm,
)

COORDINATE = "time"
FORKS = 8

_COORDINATE_LENGTH = 1_000


# -- writing --------------------------------------------------------------------------------------


def set_and_commit(run: Run) -> Metrics:
    """Set all references of a new array from columns, and commit."""
    case = run.case
    session = _create_arrays(run, run.repository)
    columns = build_columns(case.references, case.shape, case.inputs, checksums=case.checksums)
    load_pandas()
    with measured() as cost:
        _set_references(session, columns)
        session.commit("references")
    manifests, logs = run.repository / "manifests", run.repository / "transactions"
    return asdict(cost) | {"file_mb": folder_bytes(manifests, logs) / MEGABYTE}


def change_one_chunk(run: Run) -> Metrics:
    """Set one reference and commit, with the array's manifest in memory already."""
    folder = _copy(run.repository, run.work / f"{run.library.name}-changed")
    session = run.library.open(folder).writable_session(BRANCH)
    warm(session)
    before = folder_bytes(folder)
    with measured() as cost:
        session.store.set_virtual_ref(
            f"{DATA}/c/3/3/3",
            "s3://climate-archive-eu-central-1/corrections/one-chunk.nc",
            offset=4_096,
            length=40_000,
            checksum=CHECKSUM,
            validate_container=False,
        )
        session.commit("one chunk")
    return asdict(cost) | {"file_mb": (folder_bytes(folder) - before) / MEGABYTE}


def ship_merge_and_commit(run: Run) -> Metrics:
    """Take over the references that eight workers set in forks, and commit them."""
    folder = run.work / f"{run.library.name}-forks"
    _create_arrays(run, folder).commit("arrays")
    session = run.library.open(folder).writable_session(BRANCH)
    forks = [_filled_fork(session, run.case, number) for number in range(FORKS)]
    with measured() as cost:
        pickles = [pickle.dumps(fork) for fork in forks]
        session.merge(*map(_receive, pickles))
        session.commit("forks")
    return asdict(cost) | {"pickled_mb": sum(map(len, pickles)) / MEGABYTE}


# -- reading --------------------------------------------------------------------------------------


def decode_manifest(run: Run) -> Metrics:
    """Turn a manifest that icechunk wrote into columns."""
    folder = repository_folder(run.work, ICECHUNK, run.case)
    decode = _iterate_references if run.library.name == ICECHUNK else _decode_largest_manifest
    return decode(run, folder)


def list_keys(run: Run) -> Metrics:
    """List the keys of all chunks through the zarr store, with the manifest in memory."""
    session = run.library.open(run.repository).readonly_session(BRANCH)
    warm(session)
    load_pandas()
    with measured() as cost:
        count = asyncio.run(_count_keys(session.store))
    assert count == run.case.references + 1, f"{count} keys"
    return asdict(cost)


def open_and_read_coordinate(run: Run) -> Metrics:
    """Open a repository that is not in the page cache and read a small array of it."""
    evict(run.repository)
    with measured() as cost:
        session = run.library.open(run.repository).readonly_session(BRANCH)
        values = np.asarray(open_array(session, COORDINATE)[:])
    assert values[-1] == _COORDINATE_LENGTH - 1
    return asdict(cost)


def read_native_chunks(run: Run) -> Metrics:
    """Read an array of many native chunks of 4 kB through zarr."""
    session = run.library.open(run.chunks).readonly_session(BRANCH)
    array = open_array(session, CHUNKS)
    array[:CHUNK_ITEMS]
    with measured() as cost:
        values = np.asarray(array[:])
    assert values[-1] == len(values) - 1
    return asdict(cost) | {"chunks_per_s": run.case.references / cost.wall_s}


# -- preparing ------------------------------------------------------------------------------------


def prepare_references(run: Run) -> Metrics:
    """Write the repository that other operations work on."""
    return set_and_commit(run)


def prepare_chunks(run: Run) -> Metrics:
    """Write the native chunks that `read_native_chunks` reads."""
    shutil.rmtree(run.chunks, ignore_errors=True)
    session = run.library.create(run.chunks).writable_session(BRANCH)
    length = run.case.references * CHUNK_ITEMS
    array = zarr.create_group(session.store).create_array(
        CHUNKS, shape=(length,), chunks=(CHUNK_ITEMS,), dtype="f8", compressors=None
    )
    array[:] = np.arange(length)
    session.commit("chunks")
    return {}


OPERATIONS: dict[str, Callable[[Run], Metrics]] = {
    operation.__name__: operation
    for operation in (
        set_and_commit,
        change_one_chunk,
        ship_merge_and_commit,
        decode_manifest,
        list_keys,
        open_and_read_coordinate,
        read_native_chunks,
        prepare_references,
        prepare_chunks,
        *virtual_operations.OPERATIONS,
        *opening_operations.OPERATIONS,
        *packing_operations.OPERATIONS,
        *ledger_measures.OPERATIONS,
        *listing_operations.OPERATIONS,
        *pipeline_operations.OPERATIONS,
    )
}


# -- inside ---------------------------------------------------------------------------------------


def _create_arrays(run: Run, folder: Path) -> Any:
    """Return a writable session on a new repository, with the arrays created in it."""
    shutil.rmtree(folder, ignore_errors=True)
    session = run.library.create(folder).writable_session(BRANCH)
    group = zarr.create_group(session.store)
    group.create_array(DATA, shape=grid_of(run.case.references), chunks=(1, 1, 1), dtype="f4")
    coordinate = group.create_array(
        COORDINATE, shape=(_COORDINATE_LENGTH,), dtype="f8", compressors=None
    )
    coordinate[:] = np.arange(_COORDINATE_LENGTH)
    return session


def _set_references(session: Any, columns: ReferenceColumns, *, first_row: int = 0) -> None:
    session.store.set_virtual_refs_arr(
        DATA,
        columns.grid_shape,
        columns.locations,
        columns.offsets,
        columns.lengths,
        validate_containers=False,
        arr_offset=(first_row, 0, 0),
        checksum=columns.checksum,
    )


def _filled_fork(session: Any, case: Case, number: int) -> Any:
    """Return a fork as it comes out of a worker: received, filled, about to be sent back."""
    count = case.references // FORKS
    fork = _receive(pickle.dumps(session.fork()))
    columns = build_columns(count, case.shape, case.inputs, first=number * count)
    _set_references(fork, columns, first_row=number * columns.grid_shape[0])
    return fork


def _receive(shipped: bytes) -> Any:
    return pickle.loads(shipped)  # noqa: S301  pickled a moment ago in this process


def _copy(folder: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(folder, target))


async def _count_keys(store: Any) -> int:
    return len([key async for key in store.list_prefix(f"{DATA}/")])


def _iterate_references(run: Run, folder: Path) -> Metrics:
    session = run.library.open(folder).readonly_session(BRANCH)

    async def count() -> int:
        return sum(
            [len(batch[0]) async for batch in session.store.array_chunk_iterator(f"/{DATA}")]
        )

    with measured() as cost:
        rows = asyncio.run(count())
    assert rows == run.case.references, f"{rows} rows"
    return asdict(cost)


def _decode_largest_manifest(run: Run, folder: Path) -> Metrics:
    from icestream.codec.manifests import decode_manifest as decode

    load_pandas()
    path = max((folder / "manifests").iterdir(), key=lambda file: file.stat().st_size)
    with measured() as cost:
        manifest = decode(path.read_bytes(), name=path.name)
    (table,) = manifest.arrays.values()
    columns = build_columns(run.case.references, run.case.shape, Inputs.TEXTS)
    assert np.array_equal(table.byte_offset, columns.offsets)
    assert np.array_equal(table.length, columns.lengths)
    assert table.location_column().to_pylist() == columns.locations
    return asdict(cost)
