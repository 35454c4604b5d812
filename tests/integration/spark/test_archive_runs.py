"""Runs of archives on Spark in local mode leave what runs in this process leave."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.archives import CHUNK_BYTES, write_hollow_files
from pyspark.sql import DataFrame, SparkSession
from tests.archive_builders import (
    change_day,
    cut_short,
    daily_archive,
    path_of,
    write_day,
    write_days,
    write_error_page,
)
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
from icestream.ingest.engines.scanning import ScanJob
from icestream.ingest.engines.serial import SerialEngine
from icestream.ingest.opened_archives import open_archive
from icestream.ingest.progress import SILENT, Stage
from icestream.ingest.runs import run_archive, scan_job
from icestream.ingest.staging import array_routes
from icestream.model.chunk_tables import ChunkTable
from icestream.spark.ingest_engine import SparkEngine

HOLLOW = "benchmarks.archives:parse_hollow_file"
HDF = "virtualizarr.parsers:HDFParser"


@pytest.fixture
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors write the manifests of every array."""
    monkeypatch.setattr(array_routes, "LARGE_ARRAY", 1)


def hollow_archive(folder: Path, steps_per_manifest: int = 100) -> Archive:
    return Archive(
        name="hollow",
        sources=(f"{folder}/files/**/*.bin",),
        parser=ParserChoice(name=HOLLOW),
        combine=Combination(along=(Axis(dimension="time", by=PlaceBy.ORDER),)),
        target=Target(
            repository=str(folder / "repository"), splits={"time": steps_per_manifest}
        ),
    )


def references_in(archive: Archive, path: str = "/data") -> ChunkTable:
    repository = open_archive(archive).repository
    return repository.readonly_session("main").reference_table(path)


# -- the same as in this process ------------------------------------------------------------------


def arrive(files: Path) -> None:
    write_days(files, [number for number in range(14) if number != 5])


def follow(files: Path) -> None:
    write_days(files, range(14, 18))


def come_late(files: Path) -> None:
    write_day(files, 5)


def change(files: Path) -> None:
    change_day(files, 3)
    path_of(files, 16).unlink()


def break_down(files: Path) -> None:
    cut_short(write_day(files, 18))
    write_error_page(path_of(files, 19))
    write_day(files, 20)


def recover(files: Path) -> None:
    write_days(files, [18])


@pytest.mark.usefixtures("everything_is_large")
def test_every_run_in_the_life_of_an_archive_leaves_the_same(
    engine: SparkEngine, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    archive = daily_archive(files, "unused", target={"splits": {"time": 4}})
    for happen in (arrive, follow, come_late, change, break_down, recover):
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
    assert run_archive(archive, places=places_in(tmp_path / "spark"), engine=engine).is_empty


@pytest.mark.usefixtures("everything_is_large")
def test_files_of_another_form_are_copied_on_executors(
    engine: SparkEngine, tmp_path: Path
) -> None:
    from tests.archive_builders import Form

    files = tmp_path / "files"
    write_days(files, range(3))
    write_days(files, range(3, 5), Form(scale=0.005))
    archive = daily_archive(files, "unused", policies={"on_mismatch": OnMismatch.MATERIALISE})
    written = []
    for name, one in (("serial", SerialEngine(1)), ("spark", engine)):
        places = places_in(tmp_path / name)
        run_archive(archive, places=places, engine=one)
        written.append(open_archive(archive, places).repository.readonly_session("main"))
    kinds = [session.reference_table("/sst").kind for session in written]
    assert np.array_equal(kinds[0], kinds[1])
    assert len(set(kinds[0].tolist())) == 2
    lengths = [session.reference_table("/sst").length for session in written]
    assert np.array_equal(lengths[0], lengths[1])


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
    assert len(set(table.location_code.tolist())) == 41
