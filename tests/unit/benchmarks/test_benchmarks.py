"""The benchmarks run: with few references here, so that they cannot rot."""

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.cases import Case, Inputs, Shape
from benchmarks.columns import build_columns
from benchmarks.libraries import ICECHUNK, ICESTREAM, load_library
from benchmarks.operations import OPERATIONS
from benchmarks.rows import Target, full_rows, only, quick_rows
from benchmarks.runs import Run

REFERENCES = 1_600
NATIVE_CHUNKS = 50


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the repositories that operations read."""
    folder = tmp_path_factory.mktemp("benchmarks")
    for library in (ICECHUNK, ICESTREAM):
        for shape in Shape:
            run_operation(folder, library, "prepare_references", shape)
        run_operation(folder, library, "prepare_chunks", Shape.FILE)
    return folder


def run_operation(folder: Path, library: str, operation: str, shape: Shape) -> dict[str, float]:
    inputs = Inputs.TEXTS if library == ICECHUNK else Inputs.ARROW
    count = NATIVE_CHUNKS if "chunks" in operation else REFERENCES
    case = Case(operation=operation, references=count, shape=shape, inputs=inputs)
    return OPERATIONS[operation](Run(load_library(library), case, folder))


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("library", [ICECHUNK, ICESTREAM])
@pytest.mark.parametrize("operation", sorted({row.case.operation for row in full_rows(long=True)}))
def test_every_operation_runs_with_both_libraries(
    work: Path, operation: str, library: str, shape: Shape
) -> None:
    metrics = run_operation(work, library, operation, shape)
    wanted = {row.measure for row in full_rows(long=True) if row.case.operation == operation}
    assert wanted - {"wall_ms"} <= metrics.keys()
    assert metrics["wall_s"] > 0


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
