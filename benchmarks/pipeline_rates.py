"""What one core does in a second at each step of the pipeline, and what each thing leaves behind.

    python -m benchmarks.pipeline_rates

Everything runs in this process, one step after the other; `docs/explanation/scaling.md` does the
arithmetic with these numbers. Prints a Markdown table.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.archives import REFERENCES_PER_FILE, write_hollow_files, write_netcdf4_files
from icestream.codec.transaction_logs import encode_transaction_log
from icestream.ingest.archive_states import ArchiveState, decode_state, encode_state, scan_digest
from icestream.ingest.declaration.archives import Archive, Axis, Combination, Target
from icestream.ingest.facts import FileFacts, facts_of
from icestream.ingest.file_columns import gather
from icestream.ingest.placement.placing import plan_placement
from icestream.ingest.reference_blobs import decode_references, encode_references
from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.ids import new_node_id, new_snapshot_id
from icestream.model.transaction_logs import TransactionLog
from icestream.parsers.scanning import scan_file
from icestream.repository.repository import Repository
from icestream.repository.staged.cells import CellTask
from icestream.repository.staged.writing import write_cell
from icestream.storage.local import LocalStorage

PARSER = "benchmarks.archives:parse_hollow_file"
REFERENCES_PER_CELL = 1_000_000
PER_BLOB = 10_000
_MICROSECONDS_PER_DAY = 86_400_000_000
_LOGGED_CELLS = 10
_ARRAYS = 500
_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Rate:
    """One line of the table."""

    step: str
    value: float
    unit: str


def main() -> None:
    """Measure, and print the table."""
    print("| step | measured | unit |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as folder:
        for steps in (_scanning, _placing, _writing, _committing):
            for rate in steps(Path(folder)):
                print(f"| {rate.step} | {rate.value:,.3g} | {rate.unit} |", flush=True)


def _scanning(folder: Path) -> Iterator[Rate]:
    write_netcdf4_files(folder / "netcdf4", 200)
    paths = sorted((folder / "netcdf4").iterdir())
    archive = _archive(folder)
    spent = _best(lambda: [_scan(path, archive) for path in paths]) / len(paths)
    yield Rate(f"scan a NetCDF4 file of {REFERENCES_PER_FILE} references", spent * 1_000, "ms")
    table = _blob_table(folder)
    blob = encode_references(table)
    encoding = PER_BLOB / _best(lambda: encode_references(table))
    decoding = PER_BLOB / _best(lambda: decode_references(blob))
    yield Rate("references to blobs", encoding / 1e6, "M references/s")
    yield Rate("blobs to references", decoding / 1e6, "M references/s")
    yield Rate("size of blobs", len(blob) / PER_BLOB, "bytes per reference")


def _placing(folder: Path) -> Iterator[Rate]:
    archive = _archive(folder)
    (path, *_) = sorted((folder / "netcdf4").iterdir())
    one = facts_of(scan_file(str(path), loading=archive.loading), archive)
    for count in (10_000, 100_000):
        files = gather(_facts(one, number) for number in range(count))
        state = ArchiveState(files=files, declaration_digest=scan_digest(archive))
        encoded = encode_state(state)
        spent = _best(partial(plan_placement, files, archive))
        yield Rate(f"place {count:,} files of 7 arrays", spent, "s")
        yield Rate(f"state of {count:,} files of 7 arrays", len(encoded) / count, "bytes per file")
        yield Rate("  encode it", _best(partial(encode_state, state)), "s")
        yield Rate("  decode it", _best(partial(decode_state, encoded)), "s")


def _writing(folder: Path) -> Iterator[Rate]:
    table = _blob_table(folder)
    blobs = REFERENCES_PER_CELL // PER_BLOB
    steps = PER_BLOB // 1_000
    tables = [_shifted(table, number * steps) for number in range(blobs)]
    repository = Repository.create(LocalStorage(folder / "repository", sync="never"))
    box = ((0, blobs * steps), (0, 1_000), (0, 1))
    task = CellTask(
        array_id=new_node_id(), path="/data", cell=(), box=box, reach=box, grid_before=(0, 0, 0)
    )
    assets = repository._context.assets  # noqa: SLF001  what executors are given
    written: list[Any] = []
    spent = _best(lambda: written.append(write_cell(assets, task, tables, spec=2)), 3)
    cell = written[-1]
    yield Rate(
        "sort, encode and put a manifest", REFERENCES_PER_CELL / spent / 1e6, "M references/s"
    )
    size = cell.file.size_bytes / REFERENCES_PER_CELL
    yield Rate("size of manifests", size, "bytes per reference")


def _committing(folder: Path) -> Iterator[Rate]:
    cells = [
        ChangedIndexes(((i * 1_000, (i + 1) * 1_000), (0, 1_000), (0, 1)), REFERENCES_PER_CELL)
        for i in range(_LOGGED_CELLS)
    ]
    parts = {new_node_id(): cells}
    log = TransactionLog(id=new_snapshot_id())
    data = encode_transaction_log(log, spec=2, parts=parts)
    spent = _best(partial(encode_transaction_log, log, spec=2, parts=parts))
    chunks = _LOGGED_CELLS * REFERENCES_PER_CELL
    yield Rate("encode a transaction log", chunks / spent / 1e6, "M chunks/s")
    yield Rate("size of transaction logs", len(data) / chunks, "bytes per chunk")
    repository = Repository.create(LocalStorage(folder / "versions", sync="never"))
    session = repository.writable_session("main")
    group = zarr.create_group(session.store)
    for number in range(_ARRAYS):
        group.create_array(f"array-{number:04}", shape=(9, 9), chunks=(3, 3), dtype="f4")
    session.commit("arrays")
    snapshot = max(path.stat().st_size for path in (folder / "versions/snapshots").iterdir())
    yield Rate("size of snapshots", snapshot / _ARRAYS, "bytes per array")
    yield Rate("size of the file of versions", _growth(repository, folder), "bytes per version")


def _growth(repository: Repository, folder: Path) -> float:
    """Return by how much each version makes the one file larger that every commit replaces."""
    sizes = []
    for _ in range(2):
        for number in range(_VERSIONS):
            with repository.transaction("main", message=f"version {number}") as store:
                zarr.open_group(store).attrs["version"] = number
        sizes.append((folder / "versions/repo").stat().st_size)
    return (sizes[1] - sizes[0]) / _VERSIONS


# -- inputs ---------------------------------------------------------------------------------------


def _archive(folder: Path) -> Archive:
    return Archive(
        name="rates",
        sources=(f"{folder}/netcdf4/*.nc",),
        combine=Combination(along=(Axis(dimension="time"),)),
        target=Target(repository=str(folder / "repository")),
    )


def _scan(path: Path, archive: Archive) -> FileFacts:
    return facts_of(scan_file(str(path), loading=archive.loading), archive)


def _facts(one: FileFacts, number: int) -> FileFacts:
    """Return the facts of another day, which is what a scan of its file would find."""
    time = one.values["/time"]
    values = time.values + number * _MICROSECONDS_PER_DAY
    coordinate = replace(time, values=values, digest=values.tobytes().ljust(16, b"\0"))
    return replace(
        one,
        url=one.url.replace("20000101", f"{number:08}"),
        identity=replace(one.identity, etag=md5(values.tobytes()).hexdigest()),  # noqa: S324  no secret
        values={**one.values, "/time": coordinate},
    )


def _blob_table(folder: Path) -> ChunkTable:
    write_hollow_files(folder / "hollow", 1, PER_BLOB)
    (path,) = (folder / "hollow").rglob("*.bin")
    return scan_file(str(path), parser=PARSER).arrays["/data"].references


def _shifted(table: ChunkTable, steps: int) -> ChunkTable:
    return replace_columns(table, index=table.index + np.array([steps, 0, 0], np.uint32))


def _best(work: Callable[[], object], times: int = 5) -> float:
    """Return the processor time of the quickest of some calls: the machine may be busy."""
    spent = []
    for _ in range(times):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


if __name__ == "__main__":
    main()
