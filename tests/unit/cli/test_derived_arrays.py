"""Derived arrays on the command line: declared, pulled, verified."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.derived_array_builders import Cube

from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    cube = Cube(tmp_path)
    cube.create(50)
    return cube


def test_an_array_is_declared_pulled_and_verified(run: Callable[..., Any], cube: Cube) -> None:
    ledger = str(cube.folder / "ledger")
    declaration = cube.folder / "monthly.yaml"
    declaration.write_text(f"""
name: monthly
input: {{repository: {cube.address}, array: /t}}
output: {{repository: {cube.folder}/derived, array: /monthly/t}}
along: time
group: month
""")

    created = run("dataset", "create-array", ledger, str(declaration))
    pulled = run("dataset", "pull", ledger, "--all", "-o", "json")
    again = run("dataset", "pull", ledger, "monthly")
    verified = run("dataset", "verify", ledger, "monthly", "--replay", "-o", "json")

    assert created.exit_code == 0, created.stderr
    assert "monthly" in created.stdout
    assert {each["name"]: each["records"] for each in pulled.data} == {
        "monthly": 12,
        "monthly.versions": 0,
    }
    assert "nothing that it is computed from has changed" in again.stdout
    assert verified.exit_code == 0, verified.stdout
    assert (verified.data["replayed"], verified.data["skipped"]) == (1, 0)

    repo = Repository.open(local_filesystem_storage(str(cube.folder / "derived")))
    with repo.transaction("main", message="tampered") as store:
        zarr.open_array(store, path="monthly/t")[0, 0, 0] = 0
    tampered = run("dataset", "verify", ledger, "monthly", "--replay")

    assert tampered.exit_code == 6
    assert "chunk 0/0/0" in tampered.stdout
    assert "--recompute" in tampered.stdout

    mended = run("dataset", "pull", ledger, "monthly", "-o", "json")
    recomputed = run("dataset", "pull", ledger, "monthly", "--recompute", "-o", "json")

    assert [each["records"] for each in mended.data] == [1]
    assert [each["records"] for each in recomputed.data] == [12]
    assert run("dataset", "verify", ledger, "monthly", "--replay").exit_code == 0


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["monthly.versions"], "monthly.versions is no derived array"),
        (["--all"], "name the derived arrays to recompute"),
    ],
)
def test_only_derived_arrays_are_recomputed(
    run: Callable[..., Any], cube: Cube, names: list[str], told: str
) -> None:
    cube.derive()

    refused = run("dataset", "pull", str(cube.folder / "ledger"), *names, "--recompute")

    assert refused.exit_code == 2
    assert told in refused.stderr


def test_virtual_chunks_that_may_not_be_read_are_told_with_the_option(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    cube = Cube(tmp_path)
    cube.create_virtual(40)
    cube.derive()
    ledger, option = str(tmp_path / "ledger"), f"--authorize file://{tmp_path}/files/"

    refused = run("dataset", "pull", ledger, "monthly")
    pulled = run("dataset", "pull", ledger, "monthly", *option.split())
    not_verified = run("dataset", "verify", ledger, "monthly", "--replay")

    assert pulled.exit_code == 0, pulled.stderr
    for each in (refused, not_verified):
        assert each.exit_code == 5
        assert f"give the option {option}" in " ".join(each.stderr.split())
        assert "authorize_virtual_chunk_access" not in each.stderr


def test_a_declaration_with_faults_creates_nothing(run: Callable[..., Any], cube: Cube) -> None:
    declaration = cube.folder / "monthly.yaml"
    declaration.write_text("name: monthly\ngroup: fortnight\n")

    refused = run("dataset", "create-array", str(cube.folder / "ledger"), str(declaration))

    assert refused.exit_code == 2
    assert "fortnight" in refused.stderr
    assert cube.workspace.datasets() == []
