"""The benchmarks of the pipeline run, with few files here."""

from pathlib import Path

import pytest
from benchmarks.cases import Case
from benchmarks.libraries import ICECHUNK, ICESTREAM, load_library
from benchmarks.pipeline_operations import OPERATIONS
from benchmarks.rows import full_rows
from benchmarks.runs import Run
from pyspark.sql import SparkSession

FEW = {
    "ingest_archive": 10 * 80,
    "write_scanned_references": 30_000,
    "make_references_visible": 20_000,
    "run_unchanged": 30,
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_every_measure_is_taken(spark: SparkSession, tmp_path: Path, operation) -> None:
    name = operation.__name__
    case = Case(operation=name, references=FEW[name])
    metrics = operation(Run(load_library(ICESTREAM), case, tmp_path))
    wanted = {row.measure for row in full_rows(long=True) if row.case.operation == name}
    assert wanted <= metrics.keys()
    assert metrics["wall_s"] > 0


def test_virtualizarr_and_icechunk_do_the_same(tmp_path: Path) -> None:
    (ingest, *_) = OPERATIONS
    case = Case(operation="ingest_archive", references=FEW["ingest_archive"])
    metrics = ingest(Run(load_library(ICECHUNK), case, tmp_path))
    assert metrics["with_start_s"] > metrics["wall_s"] > 0
