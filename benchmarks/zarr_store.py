"""The zarr store beside icechunk's, in one process: reads of many chunks, and listing of keys.

Run `python -m benchmarks.zarr_store`. Both libraries read the same repository, in turns; the best
of all rounds counts, because other work on the machine only ever makes a round slower.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import icechunk
import numpy as np
import zarr
from rich.console import Console
from rich.table import Table

import icestream

FUSED = {"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}
PEER_KEYS = 10_000
"""icechunk lists a million keys in more than 100 s; its time per key is measured on fewer."""

Rates = dict[str, tuple[float, float]]


def _repository(folder: str, chunks: int) -> Any:
    repo = icestream.Repository.create(icestream.local_filesystem_storage(folder))
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    for name, items in (("native", 1024), ("inline", 64)):
        root.create_array(
            name, shape=(chunks * items,), chunks=(items,), dtype="f4", compressors=None
        )[:] = np.arange(chunks * items, dtype="f4")
    session.commit("chunks")
    return repo


def _set_references(repo: Any, name: str, n: int) -> None:
    session = repo.writable_session("main")
    zarr.create_array(session.store, name=name, shape=(n // 100, 100), chunks=(1, 1), dtype="f4")
    numbers = np.arange(n, dtype="u8")
    session.store.set_virtual_refs_arr(
        name, (n // 100, 100), ["s3://b/f.nc"] * n, numbers, numbers + 1, validate_containers=False
    )
    session.commit(name)


def _rate(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - start)


def _reader(session: Any, name: str, chunks: int) -> Callable[[], int]:
    array: Any = zarr.open_array(session.store, path=name, mode="r")

    def read() -> int:
        assert array[:][-1] == np.float32(array.shape[0] - 1)
        return chunks

    return read


def _lister(session: Any, name: str) -> Callable[[], int]:
    async def count() -> int:
        return len([key async for key in session.store.list_prefix(f"{name}/")])

    return lambda: asyncio.run(count())


def _best(rounds: int, works: Sequence[Callable[[], int]]) -> tuple[float, float]:
    rates = [[_rate(work) for work in works] for _ in range(rounds)]
    peer, ours = map(max, zip(*rates, strict=True))
    return peer, ours


def measure(folder: str, *, chunks: int, keys: int, rounds: int) -> Rates:
    """Return chunks or keys per second of each operation: (icechunk, icestream)."""
    repo = _repository(folder, chunks)
    _set_references(repo, "few", PEER_KEYS)
    _set_references(repo, "many", keys)
    icechunk.set_logs_filter("error")
    peer_repo = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
    sessions = peer_repo.readonly_session("main"), repo.readonly_session("main")
    rates: Rates = {}
    for pipeline, options in (("", {}), (", fused pipeline", FUSED)):
        with zarr.config.set(options):
            for name, size in (("native", "4 kB"), ("inline", "256 B")):
                works = [_reader(session, name, chunks) for session in sessions]
                rates[f"read {chunks} {name} chunks of {size}{pipeline}"] = _best(rounds, works)
    listers = _lister(sessions[0], "few"), _lister(sessions[1], "many")
    rates[f"list {keys} keys (icechunk: {PEER_KEYS})"] = _best(1, listers)
    return rates


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as folder:
        rates = measure(folder, **vars(options))
    table = Table("per second", "icechunk", "icestream", "ratio", title="zarr store, local files")
    for title, (peer, ours) in rates.items():
        table.add_row(title, f"{peer:,.0f}", f"{ours:,.0f}", f"{ours / peer:.1f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
