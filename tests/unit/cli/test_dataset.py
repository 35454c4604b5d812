"""The commands about datasets, with text for people and JSON for programs."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.ledger import Dataset, Workspace
from icestream.ledger.chain.layout import block_key, data_key
from icestream.storage import local_filesystem_storage

type Run = Callable[..., Any]

DEFINITIONS = """
kind: DatasetSnapshot
version: 1
content:
  name: large
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs:
    - datasetRef: acme/cities
    transform:
      kind: Sql
      engine: spark
      query: select * from `acme/cities` where size > 1
---
kind: DatasetSnapshot
version: 1
content:
  name: acme/cities
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: feed
    read: {kind: NdJson}
    merge: {kind: Ledger, primaryKey: [city]}
  - kind: SetInfo
    description: cities of the world
    keywords: [geography]
"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "workspace")


@pytest.fixture
def workspace(run: Run, address: str) -> Workspace:
    """The two datasets, with two records in the root."""
    assert run("dataset", "create", address, "-", input=DEFINITIONS).exit_code == 0
    workspace = Workspace(local_filesystem_storage(address))
    workspace.open("acme/cities").add_data(pa.table({"city": ["kyiv", "odesa"], "size": [3, 1]}))
    return workspace


def test_datasets_are_created_from_a_file(run: Run, address: str, tmp_path: Path) -> None:
    path = tmp_path / "definitions.yaml"
    path.write_text(DEFINITIONS)

    created = run("dataset", "create", address, str(path), "-o", "json").data
    again = run("dataset", "create", address, str(path))

    assert [(row["name"], row["kind"]) for row in created] == [
        ("acme/cities", "Root"),
        ("large", "Derivative"),
    ]
    assert again.exit_code == 4
    assert "choose another name" in again.stderr


def test_a_changed_definition_is_followed(run: Run, address: str, workspace: Workspace) -> None:
    changed = DEFINITIONS.replace("size > 1", "size > 2")

    updated = run("dataset", "update", address, "-", "-o", "json", input=changed).data
    again = run("dataset", "update", address, "-", "-o", "json", input=changed).data
    circle = changed.replace("datasetRef: acme/cities", "datasetRef: large")
    refused = run("dataset", "update", address, "-", input=circle)

    assert [(row["name"], row["appended"]) for row in updated] == [
        ("large", "SetTransform"),
        ("acme/cities", "nothing"),
    ]
    assert {row["appended"] for row in again} == {"nothing"}
    assert refused.exit_code != 0
    assert "large -> large" in refused.stderr
    assert str(workspace.open("large").head) == updated[0]["head"]


def test_a_plain_dataset_is_created_by_name(run: Run, address: str) -> None:
    ran = run("dataset", "create", address, "--name", "cities")

    assert ran.stdout.splitlines()[1].split()[:2] == ["cities", "Root"]
    assert run("dataset", "create", address).exit_code == 2
    assert run("dataset", "create", address, "-", "--name", "a", input="").exit_code == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: Nonsense\nversion: 1\ncontent: {}\n", "Nonsense"),
        (DEFINITIONS.partition("---")[0], "acme/cities"),
        (DEFINITIONS.replace("NdJson", "NoJson"), "NoJson"),
    ],
)
def test_a_wrong_definition_is_told(run: Run, address: str, text: str, problem: str) -> None:
    ran = run("dataset", "create", address, "-", input=text)

    assert ran.exit_code == 2
    assert problem in ran.stderr
    assert run("dataset", "list", address, "-o", "json").data == []


def test_datasets_are_listed_by_pattern(run: Run, workspace: Workspace, address: str) -> None:
    listed = run("dataset", "list", address, "-o", "json").data
    some = run("dataset", "list", address, "acme/%", "-o", "json").data

    assert [row["name"] for row in listed] == ["acme/cities", "large"]
    assert [(row["name"], row["records"], row["blocks"]) for row in some] == [("acme/cities", 2, 5)]
    assert some[0]["dataset_id"] == str(workspace.find("acme/cities"))
    assert "acme/cities" in run("dataset", "list", address).stdout


def test_a_dataset_is_shown(run: Run, workspace: Workspace, address: str) -> None:
    root = run("dataset", "show", address, "ACME/cities", "-o", "json").data
    derivative = run("dataset", "show", address, "large", "-o", "json").data

    assert root["columns"]["city"] == "string"
    assert root["sources"] == {"feed": "Ledger"}
    assert (root["last_offset"], root["description"]) == (1, "cities of the world")
    assert derivative["inputs"] == {"acme/cities": str(workspace.find("acme/cities"))}
    assert run("dataset", "show", address, "large").stdout.startswith("name ")


def test_a_dataset_is_found_by_id_and_at_the_address(
    run: Run, workspace: Workspace, address: str
) -> None:
    dataset_id = workspace.find("acme/cities")
    folder = f"{address}/datasets/{str(dataset_id).removeprefix('did:odf:')}"

    by_id = run("dataset", "show", address, str(dataset_id), "-o", "json").data
    here = run("dataset", "show", folder, ".", "-o", "json").data

    assert by_id == here
    assert run("dataset", "verify", folder, ".").exit_code == 0


def test_an_unknown_dataset_is_not_found(run: Run, workspace: Workspace, address: str) -> None:
    for words in (("show",), ("log",), ("tail",), ("ingest",), ("verify",), ("compact",)):
        ran = run("dataset", *words, address, "towns")

        assert ran.exit_code == 3
        assert "no dataset towns" in ran.stderr


@pytest.mark.usefixtures("workspace")
def test_the_log_shows_blocks_newest_first(run: Run, address: str) -> None:
    rows = run("dataset", "log", address, "acme/cities", "-o", "json").data
    newest = run("dataset", "log", address, "acme/cities", "-n", "1")

    assert [row["event"] for row in rows] == [
        "AddData",
        "SetDataSchema",
        "SetInfo",
        "AddPushSource",
        "Seed",
    ]
    assert (rows[0]["offsets"], rows[0]["records"]) == ("0..1", 2)
    assert rows[0]["hash"] in newest.stdout
    assert len(newest.stdout.splitlines()) == 2


@pytest.mark.usefixtures("workspace")
def test_the_log_shows_events_in_full(run: Run, address: str) -> None:
    words = ("dataset", "log", address, "acme/cities", "--events")

    blocks, text = run(*words, "-o", "json").data, run(*words).stdout

    assert blocks[2]["event"]["keywords"] == ["geography"]
    assert text.count("kind: MetadataBlock") == 5
    assert f"# {blocks[0]['hash']}" in text


@pytest.mark.usefixtures("workspace")
def test_the_tail_shows_records(run: Run, address: str) -> None:
    words = ("dataset", "tail", address, "acme/cities")

    last = run(*words, "-n", "1", "-o", "json").data
    none = run(*words, "--as-of", "1", "-o", "json").data

    assert [(row["offset"], row["city"], row["size"]) for row in last] == [(1, "odesa", 1)]
    assert none == []
    assert run(*words).stdout.splitlines()[0].split()[-2:] == ["CITY", "SIZE"]
    assert run(*words, "--as-of", "77").exit_code == 3


def test_all_types_of_records_are_shown(run: Run, tmp_path: Path) -> None:
    address = str(tmp_path / "one")
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    row = {
        "price": Decimal("1.50"),
        "seen": moment,
        "day": moment.date(),
        "clock": moment.time(),
        "blob": b"\x00\xff",
        "share": float("nan"),
        "half": 0.5,
        "flag": True,
        "place": {"x": [1, None]},
    }
    Dataset.create(local_filesystem_storage(address), "all").add_data(pa.Table.from_pylist([row]))

    (found,) = run("dataset", "tail", address, ".", "-o", "json").data

    assert found["price"] == "1.50"
    assert (found["seen"], found["day"]) == ("2024-05-01T12:00:00+00:00", "2024-05-01")
    assert (found["blob"], found["share"], found["half"]) == ("00ff", "nan", 0.5)
    assert (found["flag"], found["place"], found["clock"]) == (True, {"x": [1, None]}, "12:00:00")
    assert run("dataset", "tail", address, ".").exit_code == 0


# -- ingestion ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("workspace")
def test_a_file_is_handed_in_once(run: Run, address: str) -> None:
    words = ("dataset", "ingest", address, "acme/cities", "-", "--event-time", "2024-05-01")
    rows = '{"city": "kyiv", "size": 4}\n{"city": "lviv", "size": 2}\n'

    first = run(*words, "-o", "json", input=rows).data
    again = run(*words, "-o", "json", input=rows).data

    assert (first["status"], first["records"], first["last_offset"]) == ("updated", 1, 2)
    assert (again["status"], again["head"]) == ("up to date", first["head"])


@pytest.mark.parametrize("kind", ["csv", "json", "ndjson", "parquet"])
def test_files_of_every_format_are_handed_in(
    run: Run, address: str, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "cities"
    row = {"city": "kyiv", "size": 3}
    match kind:
        case "csv":
            path.write_text("city,size\nkyiv,3\n")
        case "json":
            path.write_text(json.dumps([row]))
        case "ndjson":
            path.write_text(json.dumps(row))
        case _:
            pq.write_table(pa.Table.from_pylist([row]), path)
    run("dataset", "create", address, "--name", "cities")

    without = run("dataset", "ingest", address, "cities", str(path))
    ran = run("dataset", "ingest", address, "cities", str(path), "--input-format", kind)

    (found,) = run("dataset", "tail", address, "cities", "-o", "json").data
    assert (without.exit_code, ran.exit_code) == (2, 0)
    assert (found["city"], found["size"]) == ("kyiv", 3)


def test_sources_are_polled(
    run: Run, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHIVE", str(tmp_path))
    (tmp_path / "a.csv").write_text("city\nkyiv\n")
    (tmp_path / "b.csv").write_text("city\nodesa\n")
    definition = """
kind: DatasetSnapshot
version: 1
content:
  name: cities
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: FilesGlob, path: "${{ env.ARCHIVE }}/*.csv"}
    prepare: [{kind: Pipe, command: [cat]}]
    read: {kind: Csv, header: true}
    merge: {kind: Append}
"""
    run("dataset", "create", address, "-", input=definition)

    refused = run("dataset", "ingest", address, "cities")
    ran = run("dataset", "ingest", address, "cities", "--allow", "commands", "-o", "json").data

    assert refused.exit_code == 5
    assert "allow commands" in refused.stderr
    assert (ran["transactions"], ran["records"]) == (2, 2)
    assert run("dataset", "ingest", address, "cities", "--source-name", "x").exit_code == 2


@pytest.mark.usefixtures("workspace")
def test_new_columns_are_taken_on_demand(run: Run, address: str) -> None:
    words = ("dataset", "ingest", address, "acme/cities", "-")
    rows = '{"city": "lviv", "size": 2, "old": true}'

    assert run(*words, input=rows).exit_code == 2
    assert run(*words, "--allow", "new-columns", input=rows).exit_code == 0


@pytest.mark.usefixtures("workspace")
def test_a_file_that_cannot_be_read_is_told(run: Run, address: str) -> None:
    ran = run("dataset", "ingest", address, "acme/cities", "-", input="{")

    assert ran.exit_code == 8
    assert "cannot be read as NdJson" in ran.stderr


@pytest.mark.usefixtures("workspace")
def test_the_watermark_is_raised(run: Run, address: str) -> None:
    words = ("dataset", "set-watermark", address, "acme/cities")

    raised = run(*words, "2100-01-01", "-o", "json").data
    lowered = run(*words, "2000-01-01", "-o", "json").data

    assert (raised["status"], raised["watermark"]) == ("updated", "2100-01-01T00:00:00Z")
    assert lowered["status"] == "up to date"
    assert run("dataset", "set-watermark", address, "large", "2100-01-01").exit_code == 2


# -- care -----------------------------------------------------------------------------------------


def test_damage_is_found_by_verification(run: Run, workspace: Workspace, address: str) -> None:
    dataset = workspace.open("acme/cities")
    (data_slice,) = dataset.current.slices()
    whole = run("dataset", "verify", address, "acme/cities")
    dataset.storage.put(data_key(data_slice.physical_hash), b"?")

    ran = run("dataset", "verify", address, "acme/cities", "-o", "json")
    text = run("dataset", "verify", address, "acme/cities", "--skip-content")

    assert (whole.exit_code, whole.stdout.rstrip().rpartition(" ")[2]) == (0, "valid")
    assert (ran.exit_code, text.exit_code) == (6, 6)
    (problem,) = ran.data["problems"]
    assert problem["object"] == data_key(data_slice.physical_hash)
    assert problem["message"].count(problem["object"]) == 1
    assert f"\nblock {problem['block']}: {problem['object']}" in text.stdout
    assert text.stdout.count("(rule ") == 1


@pytest.mark.parametrize("words", [("show",), ("log",), ("tail",), ("compact",)])
def test_a_head_that_points_nowhere_is_told(
    run: Run, workspace: Workspace, address: str, words: tuple[str]
) -> None:
    dataset = workspace.open("acme/cities")
    dataset.storage.delete_many([block_key(dataset.head)])

    ran = run("dataset", *words, address, "acme/cities")
    verified = run("dataset", "verify", address, "acme/cities", "-o", "json")
    text = run("dataset", "verify", address, "acme/cities").stdout

    assert (ran.exit_code, verified.exit_code) == (6, 6)
    (problem,) = verified.data["problems"]
    assert (problem["object"], problem["rule"]) == (block_key(dataset.head), "objects-exist")
    assert text.startswith("0 blocks, 0 slices, 0 checkpoints (0 bytes): 1 problem\n")
    assert text.count("(rule ") == 1
    assert f"{block_key(dataset.head)} is missing (rule objects-exist)" in ran.stderr


@pytest.mark.usefixtures("workspace")
def test_derivative_datasets_are_verified_with_their_inputs(run: Run, address: str) -> None:
    assert run("dataset", "verify", address, "large").exit_code == 0
    assert run("dataset", "verify", address, "large", "--skip-inputs").exit_code == 0
    Workspace(local_filesystem_storage(address)).delete("acme/cities")
    assert run("dataset", "verify", address, "large").exit_code == 0


@pytest.mark.usefixtures("workspace")
def test_a_dataset_is_moved_back(run: Run, address: str) -> None:
    words = ("dataset", "reset", address, "acme/cities")

    planned = run(*words, "2", "--dry-run", "-o", "json").data
    told = run(*words, "3", "--dry-run").stdout
    before = run("dataset", "tail", address, "acme/cities", "-o", "json").data
    done = run(*words, planned["new_head"][-8:], "-o", "json").data

    assert (planned["dropped"], len(before)) == (2, 2)
    assert told == "1 block would be dropped; nothing was changed\n"
    assert (done["blocks"], done["head"]) == (3, planned["new_head"])
    assert run("dataset", "tail", address, "acme/cities", "-o", "json").data == []
    assert run(*words, "9").exit_code == 3


def test_slices_are_compacted_and_what_they_were_is_collected(
    run: Run, workspace: Workspace, address: str
) -> None:
    workspace.open("acme/cities").add_data(pa.table({"city": ["lviv"], "size": [2]}))
    compact = ("dataset", "compact", address, "acme/cities")
    gc = ("dataset", "gc", address, "acme/cities", "--older-than", "2100-01-01")

    limited = run(*compact, "--max-slice-records", "2", "-o", "json").data
    done = run(*compact, "-o", "json").data
    planned = run(*gc, "--dry-run", "-o", "json").data
    deleted = run(*gc, "-o", "json").data

    assert (limited["changed"], done["changed"]) == (False, True)
    assert (planned["objects"], planned["deleted"], deleted["deleted"]) == (4, 0, 4)
    assert run("dataset", "verify", address, "acme/cities").exit_code == 0
    assert run("dataset", "compact", address, "large").exit_code == 2


def test_garbage_of_a_whole_workspace_is_collected(
    run: Run, workspace: Workspace, address: str
) -> None:
    workspace.open("acme/cities").reset(0)
    workspace.storage.delete_many(["aliases/_/large"])
    gc = ("dataset", "gc", address, "--older-than")

    spared = run(*gc, "1d", "-o", "json").data
    collected = run(*gc, "2100-01-01", "-o", "json").data

    assert spared["deleted"] == 0
    # four blocks and a slice; two blocks, head, alias and summary
    assert collected["deleted"] == collected["objects"] == 5 + 5
    assert [str(entry.alias) for entry in workspace.datasets()] == ["acme/cities"]
    assert run("dataset", "verify", address, "acme/cities").exit_code == 0


@pytest.mark.usefixtures("workspace")
def test_metadata_alone_may_be_kept(run: Run, address: str) -> None:
    done = run("dataset", "compact", address, "acme/cities", "--keep-metadata-only", "-o", "json")

    assert done.data["changed"]
    assert run("dataset", "show", address, "acme/cities", "-o", "json").data["records"] == 0
