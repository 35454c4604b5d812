"""The benchmarks run: with few references here, so that they cannot rot."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.cases import Case, Checksums, Inputs, Shape
from benchmarks.columns import build_columns
from benchmarks.libraries import ICECHUNK, ICESTREAM, load_library
from benchmarks.operations import OPERATIONS
from benchmarks.rows import Target, full_rows, only, quick_rows
from benchmarks.runs import Run
from benchmarks.slow_server import SlowServer, slowed

from icestream.testing.servers import S3Server

REFERENCES = 1_600
CHUNKS = 50
MEASURED = {row.case.operation for row in full_rows(long=True)}
ON_SERVER = {operation for operation in MEASURED if "server" in operation}
OURS_ALONE = MEASURED - {row.case.operation for row in full_rows(long=True) if row.has_peer}
ON_SPARK = {
    "merge_snapshot_on_spark",
    "ingest_archive",
    "write_scanned_references",
    "make_references_visible",
    "run_unchanged",
}
"""Tested where Spark is running already."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the repositories that operations read."""
    folder = tmp_path_factory.mktemp("benchmarks")
    for library in (ICECHUNK, ICESTREAM):
        for shape in Shape:
            run_operation(folder, library, "prepare_references", shape)
        run_operation(folder, library, "prepare_chunks", Shape.FILE)
        run_operation(folder, library, "prepare_chunks_of_file", Shape.FILE)
    return folder


@pytest.fixture
def slow_moto(moto: S3Server) -> Iterator[SlowServer]:
    """Return a server that delays and counts requests."""
    with slowed(moto) as server:
        yield server


def run_operation(
    folder: Path,
    library: str,
    operation: str,
    shape: Shape,
    *,
    checksums: Checksums = Checksums.ONE,
    server: SlowServer | None = None,
) -> dict[str, float]:
    inputs = Inputs.TEXTS if library == ICECHUNK else Inputs.ARROW
    count = CHUNKS if "chunks" in operation else REFERENCES
    case = Case(
        operation=operation, references=count, shape=shape, inputs=inputs, checksums=checksums
    )
    address = None if server is None else server.address
    return OPERATIONS[operation](Run(load_library(library), case, folder, address))


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("library", [ICECHUNK, ICESTREAM])
@pytest.mark.parametrize("operation", sorted(MEASURED - ON_SERVER - OURS_ALONE - ON_SPARK))
def test_every_operation_runs_with_both_libraries(
    work: Path, operation: str, library: str, shape: Shape
) -> None:
    metrics = run_operation(work, library, operation, shape)
    wanted = {row.measure for row in full_rows(long=True) if row.case.operation == operation}
    assert wanted - {"wall_ms"} <= metrics.keys()
    assert metrics["wall_s"] > 0


@pytest.mark.parametrize("operation", sorted(OURS_ALONE - ON_SPARK - ON_SERVER))
def test_operations_that_icechunk_has_not_run_alone(tmp_path: Path, operation: str) -> None:
    metrics = run_operation(tmp_path, ICESTREAM, operation, Shape.FILE)
    wanted = {row.measure for row in full_rows(long=True) if row.case.operation == operation}
    assert wanted - {"wall_ms"} <= metrics.keys()
    assert metrics["wall_s"] > 0


def test_the_table_has_room_for_what_icechunk_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--quick", "--only", "append_without", "--results", str(tmp_path)]) == 0
    assert "requests to storage" in capsys.readouterr().out
    (saved,) = tmp_path.glob("*.json")
    row, _ = json.loads(saved.read_text())["rows"]
    assert (row["icechunk"], row["times_better"]) == (None, None)
    assert row["icestream"] <= 4


@pytest.mark.server
@pytest.mark.parametrize("checksums", [Checksums.NONE, Checksums.ONE])
def test_chunks_on_a_slow_server_take_fewer_requests_than_icechunk_sends(
    tmp_path: Path, slow_moto: SlowServer, checksums: Checksums
) -> None:
    sent: dict[str, int] = {}
    for library in (ICECHUNK, ICESTREAM):
        for operation in ("prepare_chunks_on_server", "read_chunks_on_server"):
            before = slow_moto.requests
            run_operation(
                tmp_path, library, operation, Shape.FILE, checksums=checksums, server=slow_moto
            )
            sent[library] = slow_moto.requests - before
    assert sent[ICECHUNK] == CHUNKS
    assert 0 < sent[ICESTREAM] < CHUNKS / 4


@pytest.mark.server
def test_all_files_on_a_server_are_listed_in_few_requests(
    tmp_path: Path, slow_moto: SlowServer
) -> None:
    case = Case(operation="list_sources_on_server", references=CHUNKS)
    metrics = OPERATIONS[case.operation](
        Run(load_library(ICESTREAM), case, tmp_path, slow_moto.address)
    )
    assert metrics["storage_requests"] == slow_moto.requests == 1


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("checksums", list(Checksums))
def test_references_are_set_with_every_kind_of_checksums(
    tmp_path: Path, checksums: Checksums, shape: Shape
) -> None:
    metrics = run_operation(tmp_path, ICESTREAM, "set_and_commit", shape, checksums=checksums)
    assert metrics["file_mb"] > 0


def test_icechunk_is_given_what_it_can_take() -> None:
    checked = Case(operation="set_and_commit", references=1, checksums=Checksums.ETAGS)
    unchecked = Case(operation="set_and_commit", references=1, checksums=Checksums.NONE)
    assert checked.peer.checksums is Checksums.ONE
    assert unchecked.peer.checksums is Checksums.NONE
    assert checked.peer.inputs is Inputs.TEXTS


def test_an_object_has_one_checksum_whatever_reference_it_is_of() -> None:
    for checksums in (Checksums.ETAGS, Checksums.SECONDS):
        columns = build_columns(20_000, Shape.FILE, Inputs.TEXTS, checksums=checksums)
        recorded = np.asarray(columns.checksum)
        assert (recorded[:10_000] == recorded[0]).all()
        assert recorded[9_999] != recorded[10_000]


def test_the_command_measures_in_fresh_processes_and_saves_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--quick", "--only", "read_native_chunks", "--results", str(tmp_path)]) == 0
    assert "chunks/s" in capsys.readouterr().out
    (saved,) = tmp_path.glob("*.json")
    document = json.loads(saved.read_text())
    (row,) = document["rows"]
    assert row["icechunk"] > 0
    assert row["icestream"] > 0
    assert document["versions"].keys() >= {"icestream", "icechunk", "zarr"}


def test_a_name_that_no_operation_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no such operation"]) == 2
    assert "no such operation" in capsys.readouterr().err


def test_rows_are_chosen_by_title_or_by_case() -> None:
    rows = full_rows(long=True)
    assert {row.case.operation for row in only(rows, "list_keys")} == {"list_keys"}
    assert {row.case.references for row in only(rows, "10 M")} == {10_000_000}


def test_quick_rows_are_small_and_judge_nothing() -> None:
    rows = quick_rows()
    assert max(row.case.references for row in rows) <= 100_000
    assert not any(row.target for row in rows)


@pytest.mark.parametrize(
    ("target", "enough", "missed"),
    [
        (Target(0.5), 0.5, 0.6),
        (Target(2, of_peer=True), 19, 21),
        (Target(1.5, of_peer=True, at_least=True), 15, 14),
    ],
)
def test_targets_are_limits_or_multiples_of_what_icechunk_needs(
    target: Target, enough: float, missed: float
) -> None:
    assert target.is_met(enough, peer=10)
    assert not target.is_met(missed, peer=10)


@pytest.mark.parametrize("shape", list(Shape))
def test_both_forms_of_the_inputs_say_the_same(shape: Shape) -> None:
    arrow = build_columns(20_000, shape, Inputs.ARROW, first=15_000)
    texts = build_columns(20_000, shape, Inputs.TEXTS, first=15_000)
    assert list(map(str, arrow.locations)) == texts.locations
    assert (arrow.offsets == texts.offsets).all()
    assert {len(text) for text in texts.locations} <= set(range(105, 118))


def test_chunks_of_one_file_lie_one_behind_the_other() -> None:
    columns = build_columns(20_000, Shape.FILE, Inputs.TEXTS)
    ends = columns.offsets + columns.lengths
    assert (ends[:9_999] == columns.offsets[1:10_000]).all()
    assert columns.offsets[10_000] == 0
    assert len(set(columns.locations)) == 2
