"""The measured operations on shared and split manifests."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import zarr
from zarr.core.buffer import cpu

from benchmarks.measuring import evict, measured
from benchmarks.runs import BRANCH, DATA, Metrics, Run, load_pandas, open_array
from benchmarks.server_address import ServerAddress
from icestream.testing.fault_proxy import Action, Fault, FaultProxy

COORDINATE = "time"
CHUNKS_PER_STEP = 100
STEPS_PER_SPLIT = 100

_LATENCY = Action(Fault.DELAY, seconds=0.02)
_SMALL_ARRAY = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [8],
    "data_type": "float64",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0.0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {},
}


# -- many small arrays ----------------------------------------------------------------------------


def commit_small_arrays(run: Run) -> Metrics:
    """Commit so many new arrays of two chunks to the local disk."""
    folder = _small_arrays(run)
    shutil.rmtree(folder, ignore_errors=True)
    session = run.library.create(folder).writable_session(BRANCH)
    _fill_small_arrays(session, run.case.references)
    before = _files(folder)
    with measured() as cost:
        session.commit("small arrays")
    return asdict(cost) | {"puts": len(_files(folder) - before)}


def change_small_array(run: Run) -> Metrics:
    """Change one of so many small arrays and commit, with nothing in memory."""
    folder = _small_arrays(run)
    if not folder.exists():
        commit_small_arrays(run)
    session = run.library.open(folder).writable_session(BRANCH)
    before = _files(folder)
    with measured() as cost:
        _set(session.store, "v7/c/0", np.ones(4).tobytes())
        session.commit("one of them")
    written = _files(folder) - before
    manifests = sum("manifests" in path.parts for path in written)
    return asdict(cost) | {"puts": len(written), "manifests": manifests}


def commit_small_arrays_on_server(run: Run) -> Metrics:
    """Commit so many new arrays of two chunks to a server 20 ms away."""
    if run.server is None:
        raise ValueError(f"{run.case.operation} needs a server")
    prefix = f"{run.library.name}-small-arrays-{run.case.references}-{time.time_ns()}"
    with _slowed(run.server) as proxy:
        storage = run.library.module.s3_storage(
            bucket=run.server.bucket,
            prefix=prefix,
            endpoint_url=f"http://127.0.0.1:{proxy.port}",
            allow_http=True,
            region="us-east-1",
            force_path_style=True,
            access_key_id=run.server.access_key_id,
            secret_access_key=run.server.secret_access_key,
        )
        session = run.library.repository.create(storage).writable_session(BRANCH)
        _fill_small_arrays(session, run.case.references)
        before = len(proxy.requests)
        with measured() as cost:
            session.commit("small arrays")
        puts = sum(request.method == "PUT" for request in proxy.requests[before:])
    return asdict(cost) | {"puts": puts}


@contextmanager
def _slowed(server: ServerAddress) -> Iterator[FaultProxy]:
    port = urlsplit(server.direct_url).port
    assert port is not None
    with FaultProxy(port, lambda _: _LATENCY) as proxy:
        yield proxy


def _small_arrays(run: Run) -> Path:
    return run.work / f"{run.library.name}-small-arrays-{run.case.references}"


def _fill_small_arrays(session: Any, count: int) -> None:
    zarr.create_group(session.store)
    metadata = json.dumps(_SMALL_ARRAY).encode()
    chunk = np.arange(4, dtype="f8").tobytes()

    async def fill() -> None:
        for i in range(count):
            await session.store.set(f"v{i}/zarr.json", cpu.Buffer.from_bytes(metadata))
            for part in range(2):
                await session.store.set(f"v{i}/c/{part}", cpu.Buffer.from_bytes(chunk))

    asyncio.run(fill())


def _set(store: Any, key: str, data: bytes) -> None:
    asyncio.run(store.set(key, cpu.Buffer.from_bytes(data)))


def _files(folder: Path) -> set[Path]:
    """Return files with what tells that they were replaced."""
    return {file / str(file.stat().st_mtime_ns) for file in folder.rglob("*") if file.is_file()}


# -- a coordinate beside a large array ------------------------------------------------------------


def read_coordinate_beside(run: Run) -> Metrics:
    """Open a repository and read a coordinate, counting the bytes that are read for it."""
    folder = run.repository
    open_array(run.library.open(folder).readonly_session(BRANCH), COORDINATE)  # imports
    evict(folder)
    before = _bytes_read()
    with measured() as cost:
        session = run.library.open(folder).readonly_session(BRANCH)
        values = np.asarray(open_array(session, COORDINATE)[:])
    assert values[-1] == len(values) - 1
    return asdict(cost) | {"read_kb": (_bytes_read() - before) / 1_000}


def _bytes_read() -> int:
    """Return how many bytes this process has read from files so far; Linux only."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        return 0
    return int(counters.read_text().splitlines()[0].split()[1])


# -- appending to a split array -------------------------------------------------------------------


def append_to_split_array(run: Run) -> Metrics:
    """Append one step to an array that is split along its first dimension, and commit."""
    folder = run.work / f"{run.library.name}-split-{run.case.references}"
    if not folder.exists():
        _create_split_array(run, folder)
    session = run.library.open(folder).writable_session(BRANCH)
    array = zarr.open_array(session.store, path=DATA, mode="r+")
    steps = array.shape[0]
    load_pandas()
    with measured() as cost:
        array.resize((steps + 1, CHUNKS_PER_STEP))
        _set_steps(session, steps, 1)
        session.commit("one step")
    return asdict(cost)


def _create_split_array(run: Run, folder: Path) -> None:
    module = run.library.module
    rule = {
        module.ManifestSplitCondition.AnyArray(): {
            module.ManifestSplitDimCondition.Axis(0): STEPS_PER_SPLIT
        }
    }
    splitting = module.ManifestSplittingConfig.from_dict(rule)
    config = module.RepositoryConfig(manifest=module.ManifestConfig(splitting=splitting))
    repo = run.library.repository.create(run.library.storage(str(folder)), config=config)
    repo.save_config()
    session = repo.writable_session(BRANCH)
    # half a split more: the last one is neither nearly empty nor nearly full
    steps = run.case.references // CHUNKS_PER_STEP + STEPS_PER_SPLIT // 2
    zarr.create_group(session.store).create_array(
        DATA, shape=(steps, CHUNKS_PER_STEP), chunks=(1, 1), dtype="f4"
    )
    _set_steps(session, 0, steps)
    session.commit("steps")


def _set_steps(session: Any, first: int, steps: int) -> None:
    count = steps * CHUNKS_PER_STEP
    files = [f"s3://climate-archive/hourly/{first + i:08d}.nc" for i in range(steps)]
    locations: Any = np.repeat(np.array(files, object), CHUNKS_PER_STEP).tolist()
    if session.__class__.__module__.startswith("icestream"):
        codes = np.repeat(np.arange(steps, dtype=np.int32), CHUNKS_PER_STEP)
        locations = pa.DictionaryArray.from_arrays(codes, pa.array(files, pa.large_string()))
    session.store.set_virtual_refs_arr(
        DATA,
        (steps, CHUNKS_PER_STEP),
        locations,
        np.arange(count, dtype=np.uint64) % CHUNKS_PER_STEP * 4_096,
        np.full(count, 4_096, np.uint64),
        validate_containers=False,
        arr_offset=(first, 0),
    )


OPERATIONS: tuple[Callable[[Run], Metrics], ...] = (
    commit_small_arrays,
    change_small_array,
    commit_small_arrays_on_server,
    read_coordinate_beside,
    append_to_split_array,
)
