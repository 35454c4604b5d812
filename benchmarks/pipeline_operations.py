"""The measured operations of the pipeline: archives become repositories, on Spark in local mode."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.archives import (
    REFERENCES_PER_FILE,
    write_hollow_files,
    write_netcdf4_files,
)
from benchmarks.libraries import ICECHUNK
from benchmarks.measuring import folder_bytes, measured
from benchmarks.process_trees import tree_cpu_seconds, watched_memory
from benchmarks.runs import BRANCH, Metrics, Run

CHUNKS_PER_HOLLOW_FILE = 10_000
STEPS_PER_MANIFEST = 1_000
"""Each step of time is a thousand chunks: a million references per manifest."""

_COORDINATES = ["time", "lat", "lon"]
_WARM_UP_FILES = 100


# -- real files, beside VirtualiZarr and icechunk -------------------------------------------------


def ingest_archive(run: Run) -> Metrics:
    """Make a repository of NetCDF4 files, 80 references in each."""
    files = run.work / f"netcdf4-{run.case.references}"
    if not files.exists():
        write_netcdf4_files(files, run.case.references // REFERENCES_PER_FILE)
    target = run.work / f"{run.library.name}-ingested-{run.case.references}"
    shutil.rmtree(target, ignore_errors=True)
    started = time.perf_counter()
    ingest = _prepare_peer(run) if run.library.name == ICECHUNK else _prepare_ours(run)
    with _measured_tree() as costs:
        ingest(files, target)
    spent = time.perf_counter() - started
    _check_ingested(run, files, target)
    return costs | {"with_start_s": spent}


def _prepare_peer(run: Run) -> Callable[[Path, Path], None]:
    """Return how VirtualiZarr and icechunk do it, in one process, after importing them."""
    import xarray as xr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser

    def ingest(files: Path, target: Path) -> None:
        registry = ObjectStoreRegistry({"file://": LocalStore()})
        parts = [
            open_virtual_dataset(
                url=f"file://{path}",
                registry=registry,
                parser=HDFParser(),
                loadable_variables=_COORDINATES,
            )
            for path in sorted(files.iterdir())
        ]
        together = xr.concat(
            parts,
            "time",
            data_vars="minimal",
            coords="minimal",
            compat="override",
            join="override",
            combine_attrs="override",
        )
        session = run.library.create(target, run.library.files_in(files)).writable_session(BRANCH)
        together.vz.to_icechunk(session.store)
        session.commit("all files")

    return ingest


def _prepare_ours(run: Run) -> Callable[[Path, Path], None]:
    """Return how icestream does it, after starting Spark."""
    del run
    engine = _started_engine()

    def ingest(files: Path, target: Path) -> None:
        _run(_archive_of(f"{files}/*.nc", target), engine)

    return ingest


def _check_ingested(run: Run, files: Path, target: Path) -> None:
    import xarray as xr

    session = run.library.open(target, run.library.files_in(files)).readonly_session(BRANCH)
    found = xr.open_zarr(session.store, consolidated=False, chunks=None)
    paths = sorted(files.iterdir())
    assert found.sizes["time"] == len(paths)
    for row in (0, -1):
        with xr.open_dataset(paths[row], engine="h5netcdf") as expected:
            xr.testing.assert_equal(found.isel(time=[row]).load(), expected.load())


# -- many references ------------------------------------------------------------------------------


def write_scanned_references(run: Run) -> Metrics:
    """Pack, write and commit references that are scanned already, in a warm session."""
    return _ingest_hollow(run, is_warm=True)


def make_references_visible(run: Run) -> Metrics:
    """Make a version of so many references, and watch how much memory all processes have."""
    return _ingest_hollow(run, is_warm=False)


def _ingest_hollow(run: Run, *, is_warm: bool) -> Metrics:
    references = run.case.references
    per_file = min(CHUNKS_PER_HOLLOW_FILE, references)
    engine = _started_engine()
    with _hollow_files(run, references // per_file, per_file) as (pattern, target):
        if is_warm:
            _warm_up(run, engine, per_file)
        with _measured_tree() as costs, watched_memory() as memory:
            report = _run(_hollow_archive(pattern, target, STEPS_PER_MANIFEST), engine)
        written = folder_bytes(target / "manifests", target / "transactions")
    assert report.num_references == references
    return costs | {
        "references_per_s": references / (report.seconds["write"] + report.seconds["commit"]),
        "scanned_per_s": references / report.seconds["scan and place"],
        "driver_mb": memory.own_mb,
        "java_mb": memory.largest_mb("java"),
        "worker_mb": memory.largest_mb("python"),
        "bytes_per_reference": written / references,
    }


def _warm_up(run: Run, engine: Any, per_file: int) -> None:
    """Let Spark start its workers, and these import what they need."""
    with _hollow_files(run, _WARM_UP_FILES, per_file) as (pattern, target):
        _run(_hollow_archive(pattern, target, STEPS_PER_MANIFEST), engine)


# -- nothing new ----------------------------------------------------------------------------------


def run_unchanged(run: Run) -> Metrics:
    """Run again on an archive of so many files, none of which is new."""
    engine = _started_engine()
    with _hollow_files(run, run.case.references, 1) as (pattern, target):
        archive = _hollow_archive(pattern, target, run.case.references)
        started = time.perf_counter()
        _run(archive, engine)
        first = time.perf_counter() - started
        with _measured_tree() as costs:
            report = _run(archive, engine)
    assert report.is_empty
    return costs | {
        "list_s": report.seconds["list"],
        "first_run_s": first,
        "storage_requests": report.num_requests,
    }


# -- what they share ------------------------------------------------------------------------------


@contextmanager
def _measured_tree() -> Iterator[Metrics]:
    """Measure the block, with the processor time of Spark and its workers."""
    costs: Metrics = {}
    before = tree_cpu_seconds()
    with measured() as cost:
        yield costs
    costs |= asdict(cost) | {"cpu_s": tree_cpu_seconds() - before}


@contextmanager
def _hollow_files(run: Run, count: int, per_file: int) -> Iterator[tuple[str, Path]]:
    """Write files, and clear them and the repository away afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hollow-", dir=run.work))
    write_hollow_files(folder / "files", count, per_file)
    try:
        yield f"{folder}/files/**/*.bin", folder / "repository"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _started_engine() -> Any:
    from icestream.spark import session
    from icestream.spark.ingest_engine import SparkEngine

    return SparkEngine(session("benchmarks", "local[2]"))


def _run(archive: Any, engine: Any) -> Any:
    from icestream.ingest.runs import run_archive

    return run_archive(archive, engine=engine)


def _archive_of(source: str, target: Path) -> Any:
    from icestream.ingest.declaration.archives import Archive, Axis, Combination, Target

    return Archive(
        name="benchmark",
        sources=(source,),
        combine=Combination(along=(Axis(dimension="time"),)),
        target=Target(repository=str(target)),
    )


def _hollow_archive(source: str, target: Path, steps_per_manifest: int) -> Any:
    from icestream.ingest.declaration.archives import (
        Archive,
        Axis,
        Combination,
        ParserChoice,
        PlaceBy,
        Target,
    )

    return Archive(
        name="benchmark",
        sources=(source,),
        parser=ParserChoice(name="benchmarks.archives:parse_hollow_file"),
        combine=Combination(along=(Axis(dimension="time", by=PlaceBy.ORDER),)),
        target=Target(repository=str(target), splits={"time": steps_per_manifest}),
    )


OPERATIONS: tuple[Callable[[Run], Metrics], ...] = (
    ingest_archive,
    write_scanned_references,
    make_references_visible,
    run_unchanged,
)
