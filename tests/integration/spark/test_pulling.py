"""Datasets brought up to date in the order in which they read each other."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.transforms import derive, readings, rows_of, set_transform, workspace_in
from typer.testing import CliRunner

from icestream.cli.main import app
from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger import Workspace
from icestream.ledger.chain.layout import block_key, data_key
from icestream.spark.transforms.lazy_engine import LazySqlEngine
from icestream.spark.transforms.pulling import Pulling

COPY = "select event_time, sensor, value from {}"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = workspace_in(tmp_path)
    workspace.create("readings").add_data(readings([0, 1, 2]))
    derive(workspace, "b", set_transform(COPY.format("readings") + " where value > 0"))
    derive(workspace, "a", set_transform(COPY.format("b"), inputs=[("b", "b")]))
    return workspace


@pytest.fixture
def pulling(spark: SparkSession, workspace: Workspace) -> Pulling:
    return Pulling(workspace, LazySqlEngine(lambda: spark))


def test_inputs_are_pulled_first(pulling: Pulling, workspace: Workspace) -> None:
    alone = list(pulling.pull(["a"]))
    done = list(pulling.pull(["a"], recursive=True))

    assert [(each.name, each.status) for each in alone] == [("a", "up to date")]
    assert "has no schema yet" in alone[0].reason
    assert [(each.name, each.status, each.record_count) for each in done] == [
        ("readings", "up to date", 0),
        ("b", "updated", 2),
        ("a", "updated", 2),
    ]
    assert [value for (value,) in rows_of(workspace.open("a"), "value")] == [1, 2]


def test_what_reads_a_dataset_that_failed_is_left(pulling: Pulling, workspace: Workspace) -> None:
    derive(workspace, "wrong", set_transform("select nope from readings"))
    derive(workspace, "after", set_transform(COPY.format("w"), inputs=[("wrong", "w")]))

    done = {each.name: each for each in pulling.pull(["after", "b"], recursive=True)}

    assert done["b"].status == "updated"
    assert done["wrong"].status == done["after"].status == "failed"
    assert "its input wrong failed" in str(done["after"].error)
    assert workspace.open("after").state.data_event is None


def test_datasets_that_read_each_other_are_refused(pulling: Pulling, workspace: Workspace) -> None:
    a, b = workspace.open("a"), workspace.open("b")
    b.append(set_transform(COPY.format("a"), inputs=[(str(a.dataset_id), "a")]))

    with pytest.raises(InvalidInputError, match="in a circle: a -> b -> a"):
        list(pulling.pull(["a"]))


def test_a_circle_keeps_nobody_else_from_going_on(pulling: Pulling, workspace: Workspace) -> None:
    derive(workspace, "apart", set_transform(COPY.format("readings")))
    a, b = workspace.open("a"), workspace.open("b")
    b.append(set_transform(COPY.format("a"), inputs=[(str(a.dataset_id), "a")]))

    done = {each.name: each.status for each in pulling.pull(["a", "b", "apart"])}

    assert done == {"a": "failed", "b": "failed", "apart": "updated"}


def test_an_input_that_is_gone_is_named(pulling: Pulling, workspace: Workspace) -> None:
    gone = workspace.find("readings")
    workspace.delete("readings")

    (done,) = pulling.pull(["b"])

    assert isinstance(done.error, NotFoundError)
    assert str(gone) in str(done.error)


def test_spark_is_not_started_where_nothing_is_new(workspace: Workspace) -> None:
    def start() -> SparkSession:
        raise AssertionError

    done = list(Pulling(workspace, LazySqlEngine(start)).pull(["readings", "a"]))

    assert [each.status for each in done] == ["up to date", "up to date"]


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark", "workspace")
def test_the_command_pulls_and_replays(tmp_path: Path) -> None:
    address = str(tmp_path / "workspace")
    run = CliRunner().invoke

    one = run(app, ["dataset", "pull", address, "b"])
    everything = run(app, ["dataset", "pull", address, "--all", "-o", "json"])
    again = run(app, ["dataset", "pull", address, "a", "--recursive"])
    replayed = run(app, ["dataset", "verify", address, "a", "--replay", "-o", "json"])
    nothing = run(app, ["dataset", "pull", address])

    assert one.stdout.startswith("b: updated, 2 records, head f1620"), one.stderr
    assert {each["name"]: each["status"] for each in json.loads(everything.stdout)} == {
        "readings": "up to date",
        "b": "up to date",
        "a": "updated",
    }
    assert again.stdout.count("up to date") == 3
    found = json.loads(replayed.stdout)
    assert (found["valid"], found["replayed"], found["skipped"]) == (True, 1, 0)
    assert (nothing.exit_code, replayed.exit_code) == (2, 0)


@pytest.mark.usefixtures("spark", "workspace")
def test_the_command_tells_what_failed(tmp_path: Path, workspace: Workspace) -> None:
    address = str(tmp_path / "workspace")
    derive(workspace, "wrong", set_transform("select nope from readings"))
    run = CliRunner().invoke

    one = run(app, ["dataset", "pull", address, "wrong"])
    several = run(app, ["dataset", "pull", address, "wrong", "b"])

    assert (one.exit_code, several.exit_code) == (2, 2)
    assert "step 1 (the output) fails at line 1, column 8" in one.stderr
    assert "wrong: failed: step 1" in several.stdout
    assert "b: updated" in several.stdout


@pytest.mark.usefixtures("spark")
def test_the_command_finds_tampered_slices_and_blocks(tmp_path: Path, workspace: Workspace) -> None:
    address = str(tmp_path / "workspace")
    run = CliRunner().invoke
    run(app, ["dataset", "pull", address, "b"])
    derived = workspace.open("b")
    words = ["dataset", "verify", address, "b", "--replay", "-o", "json"]
    (data_slice,) = derived.current.slices()
    head = derived.state.head

    derived.storage.put(data_key(data_slice.physical_hash), b"other records")
    other_slice = run(app, words)
    derived.storage.put(block_key(head.block_hash), head.data[:-1] + b"x")
    other_block = run(app, words)

    assert (other_slice.exit_code, other_block.exit_code) == (6, 6)
    (found,) = json.loads(other_slice.stdout)["problems"]
    assert (found["block"], json.loads(other_slice.stdout)["replayed"]) == (head.sequence_number, 1)
    first = json.loads(other_block.stdout)["problems"][0]
    assert first["object"] == block_key(head.block_hash)
