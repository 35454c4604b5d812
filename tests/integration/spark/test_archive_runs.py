"""Runs of archives on Spark in local mode leave what runs in this process leave."""

import os
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.archives import CHUNK_BYTES, write_hollow_files
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from tests.archive_builders import (
    Form,
    change_day,
    cut_short,
    daily_archive,
    path_of,
    write_day,
    write_days,
    write_error_page,
)
from tests.quick_runs import NO_RULES, patch_large_arrays, patch_quick_scans
from tests.run_results import RunResults, places_in, results_of

from icestream.errors import (
    ConflictError,
    ErrorKind,
    IcestreamError,
    InternalError,
    InvalidInputError,
)
from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnMismatch,
    ParserChoice,
    PlaceBy,
    Target,
)
from icestream.ingest.engines.protocol import ScanResult
from icestream.ingest.engines.serial import SerialEngine
from icestream.ingest.opened_archives import open_archive
from icestream.ingest.progress import SILENT, Stage
from icestream.ingest.runs import run_archive, scan_job
from icestream.model.chunk_refs import InlineRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.spark.ingest_engine import SparkEngine, _ScannedFrame

# tasks do not find this module, so its functions go along with them
cloudpickle.register_pickle_by_value(sys.modules[__name__])

HOLLOW = "benchmarks.archives:parse_hollow_file"
SPLIT = {"splits": {"time": 4}, "chunk_manifests": NO_RULES}
SMALL = Form(shape=(4, 8), chunks=(2, 4))
HDF = "virtualizarr.parsers:HDFParser"


@pytest.fixture
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors write the manifests of every array; in this process, scan without children."""
    patch_large_arrays(monkeypatch)
    patch_quick_scans(monkeypatch)


def hollow_archive(folder: Path, steps_per_manifest: int = 100) -> Archive:
    return Archive(
        name="hollow",
        sources=(f"{folder}/files/**/*.bin",),
        parser=ParserChoice(name=HOLLOW),
        combine=Combination(along=(Axis(dimension="time", by=PlaceBy.ORDER),)),
        target=Target(repository=str(folder / "repository"), splits={"time": steps_per_manifest}),
    )


def references_in(archive: Archive, path: str = "/data") -> ChunkTable:
    repository = open_archive(archive).repository
    return repository.readonly_session("main").reference_table(path)


# -- the same as in this process ------------------------------------------------------------------


def arrive(files: Path) -> None:
    write_days(files, [number for number in range(10) if number != 5], SMALL)
    cut_short(write_day(files, 10, SMALL))
    write_error_page(path_of(files, 11))


def come_late(files: Path) -> None:
    write_days(files, [5, 12, 13], SMALL)
    write_day(files, 14, replace(SMALL, scale=0.005))


def change(files: Path) -> None:
    change_day(files, 3, SMALL)
    write_day(files, 10, SMALL)
    path_of(files, 12).unlink()


@pytest.mark.usefixtures("everything_is_large")
def test_every_run_in_the_life_of_an_archive_leaves_the_same(
    engine: SparkEngine, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    policies = {"on_mismatch": OnMismatch.MATERIALISE}
    archive = daily_archive(files, "unused", target=SPLIT, policies=policies)
    for happen in (arrive, come_late, change):
        happen(files)
        by_engine: list[tuple[Any, RunResults]] = []
        for name, one in (("serial", SerialEngine(1)), ("spark", engine)):
            places = places_in(tmp_path / name)
            report = run_archive(archive, places=places, engine=one)
            told = (report.num_scanned, report.num_references, report.set_aside, report.gaps)
            by_engine.append((told, results_of(archive, places)))
        (told_here, here), (told_there, there) = by_engine
        assert told_there == told_here
        assert there.documents == here.documents
        assert there.references == here.references
        assert there.files == here.files
        assert there == here
    kinds = {type(ref) for ref in there.references["/sst"].values()}
    assert kinds == {VirtualRef, InlineRef}  # a file of another form was copied
    assert run_archive(archive, places=places_in(tmp_path / "spark"), engine=engine).is_empty


def test_options_reach_a_parser_on_executors(engine: SparkEngine, tmp_path: Path) -> None:
    files = tmp_path / "files"
    write_days(files, range(2))
    archive = daily_archive(
        files,
        tmp_path / "repository",
        parser=ParserChoice(name=HDF, options={"drop_variables": ["sst"]}),
    )
    run_archive(archive, engine=engine)
    assert "/sst" not in results_of(archive).documents
    assert "/time" in results_of(archive).documents


# -- files of very different sizes ----------------------------------------------------------------


def scanned_blobs(engine: SparkEngine, archive: Archive) -> tuple[ScanResult, DataFrame]:
    opened = open_archive(archive)
    urls = sorted(f"file://{path}" for path in Path(archive.sources[0][:-9]).rglob("*.bin"))
    found = engine.scan(urls, scan_job(opened), SILENT)
    assert isinstance(found.references, _ScannedFrame)
    frame = found.references.frame.where("payload is not null and path is not null")
    return found, frame


def test_one_enormous_file_is_cut_and_many_small_ones_share(
    engine: SparkEngine, tmp_path: Path
) -> None:
    enormous, small = tmp_path / "enormous", tmp_path / "small"
    write_hollow_files(enormous / "files", 1, 600_000)
    write_hollow_files(small / "files", 500, 1)

    found, blobs = scanned_blobs(engine, hollow_archive(enormous))
    counts = [row.num_references for row in blobs.select("num_references").collect()]
    assert sum(counts) == 600_000
    assert max(counts) <= 2**18
    found.references.close()

    found, blobs = scanned_blobs(engine, hollow_archive(small))
    counts = [row.num_references for row in blobs.select("num_references").collect()]
    assert sum(counts) == 500
    assert len(counts) <= 500 // 50
    found.references.close()


def test_references_of_an_enormous_file_beside_small_ones_are_all_there(
    engine: SparkEngine, tmp_path: Path
) -> None:
    write_hollow_files(tmp_path / "files" / "0-enormous", 1, 300_000)
    write_hollow_files(tmp_path / "files" / "1-small", 40, 1_000)
    archive = hollow_archive(tmp_path)
    report = run_archive(archive, engine=engine)
    table = references_in(archive)
    assert report.num_references == len(table) == 340_000
    steps, columns, _ = table.index.T
    assert np.array_equal(steps, np.repeat(np.arange(340), 1_000))
    within = np.where(steps < 300, steps * 1_000, 0) + columns
    ends = (within.astype(np.uint64) + 1) * CHUNK_BYTES
    assert table.byte_offset is not None
    assert np.array_equal(table.byte_offset, ends - CHUNK_BYTES)
    locations = np.array(table.locations.to_pylist())[table.location_code[::1_000]]
    assert len({*locations[:300]}) == 1
    assert len({*locations}) == 41
    assert sorted(locations) == locations.tolist()


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_wrong_declaration_is_told_as_such(engine: SparkEngine, tmp_path: Path) -> None:
    write_days(tmp_path / "files", range(2))
    archive = daily_archive(
        tmp_path / "files",
        tmp_path / "repository",
        parser=ParserChoice(name="no_such_package.parsers:parse"),
    )
    with pytest.raises(InvalidInputError, match="no_such_package") as caught:
        run_archive(archive, engine=engine)
    assert "Traceback" not in str(caught.value)
    assert "java" not in str(caught.value)


@pytest.mark.usefixtures("everything_is_large")
def test_a_store_that_takes_no_manifests_is_told_as_such(
    engine: SparkEngine, tmp_path: Path
) -> None:
    files, repository = tmp_path / "files", tmp_path / "repository"
    write_days(files, range(2))
    archive = daily_archive(files, repository, target=SPLIT)
    open_archive(archive).established()
    (repository / "manifests").write_text("where a folder should be")
    with pytest.raises(IcestreamError, match="manifests") as caught:
        run_archive(archive, engine=engine)
    assert "java" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert not isinstance(caught.value, InternalError)


def test_errors_of_executors_keep_their_class_and_kind(engine: SparkEngine) -> None:
    with pytest.raises(ConflictError, match=r"^2 was changed$") as caught:
        engine.map(refuse, [1, 2])
    assert caught.value.kind is ErrorKind.COMMIT_CONFLICT


@pytest.mark.parametrize("fate", ["is killed", "has a bug"])
def test_a_task_that_fails_otherwise_is_told_in_one_line(engine: SparkEngine, fate: str) -> None:
    with pytest.raises(InternalError, match="a Spark job failed") as caught:
        engine.map(end, [fate])
    told = str(caught.value)
    assert "\n" not in told
    assert "crashed" in told if fate == "is killed" else "ZeroDivisionError" in told


def refuse(number: int) -> int:
    if number == 2:
        raise ConflictError(f"{number} was changed", kind=ErrorKind.COMMIT_CONFLICT)
    return number


def end(fate: str) -> float:
    if fate == "is killed":
        os._exit(1)
    return 1 / 0


# -- how far it is --------------------------------------------------------------------------------


@dataclass
class Recorded:
    """A listener that remembers, and who told it."""

    stages: list[tuple[Stage, int | None]] = field(default_factory=list)
    told: dict[Stage, list[tuple[str, int, int, int]]] = field(default_factory=dict)

    def stage(self, name: Stage, total: int | None = None) -> None:
        self.stages.append((name, total))

    def advance(self, count: int = 1, *, references: int = 0, set_aside: int = 0) -> None:
        teller = threading.current_thread().name
        rows = self.told.setdefault(self.stages[-1][0], [])
        rows.append((teller, count, references, set_aside))

    def note(self, text: str) -> None:
        raise AssertionError(text)

    def sums(self, stage: Stage) -> tuple[int, ...]:
        return tuple(map(sum, list(zip(*self.told[stage], strict=True))[1:]))


@pytest.mark.usefixtures("everything_is_large")
def test_progress_is_told_while_jobs_run(engine: SparkEngine, tmp_path: Path) -> None:
    files = tmp_path / "files"
    write_days(files, range(24))
    write_error_page(path_of(files, 24))
    archive = daily_archive(files, tmp_path / "repository", target=SPLIT)
    progress = Recorded()
    run_archive(archive, engine=engine, progress=progress)
    assert dict(progress.stages)["scan"] == 25
    assert dict(progress.stages)["write"] == 6
    scanned = progress.sums("scan")
    assert scanned[0] == 25
    assert scanned[1] >= 24 * 4
    assert scanned[2] == 1
    assert progress.sums("write") == (6, 24 * 4, 0)
    tellers = {teller for rows in progress.told.values() for teller, *_ in rows}
    assert "icestream-progress" in tellers
