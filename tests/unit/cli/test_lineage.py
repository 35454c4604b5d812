"""`icestream lineage`, in its four forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from icestream.ledger.workspace import Workspace
from icestream.storage import local_filesystem_storage


@pytest.fixture
def address(tmp_path: Path) -> str:
    workspace = Workspace(local_filesystem_storage(str(tmp_path / "ledger")))
    workspace.create("cities")
    workspace.create("rivers")
    return str(tmp_path / "ledger")


def test_a_lineage_is_a_tree_a_value_or_a_picture(run: Callable[..., Any], address: str) -> None:
    text = run("lineage", address, "cities")
    value = run("lineage", address, "cities", "--output", "json")
    picture = run("lineage", address, "cities", "-o", "svg")
    page = run("lineage", address, "-o", "html")

    assert text.stdout.startswith("* cities  root dataset  block 0 …")
    [node] = value.data["nodes"]
    assert (node["name"], node["freshness"]) == ("cities", "empty")
    assert ET.fromstring(picture.stdout).tag.endswith("svg")  # noqa: S314  our own text
    assert page.stdout.startswith("<!DOCTYPE html>")
    assert "rivers" in page.stdout


def test_names_and_formats_that_do_not_exist_are_refused(
    run: Callable[..., Any], address: str
) -> None:
    missing = run("lineage", address, "lakes")
    odd = run("lineage", address, "cities", "--output", "png")

    assert missing.exit_code == 3
    assert "there is cities, rivers" in missing.stderr
    assert odd.exit_code == 2


def test_a_place_without_datasets_is_told(run: Callable[..., Any], tmp_path: Path) -> None:
    nothing = run("lineage", str(tmp_path / "nowhere"))

    assert nothing.exit_code == 3
    assert "address of a workspace" in nothing.stderr
