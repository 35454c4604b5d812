"""A small repository on disk, and a way to run commands on it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zarr
from typer.testing import CliRunner

from icestream.cli.main import app
from icestream.repository.repository import Repository
from icestream.storage.factories import local_filesystem_storage


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """Standard output, as JSON."""
        return json.loads(self.stdout)


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Run a command."""

    def run_command(*words: str, input: str | None = None) -> Ran:  # noqa: A002  as the runner calls it
        result = CliRunner().invoke(app, list(words), input=input)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run_command


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """A repository with two commits of an array."""
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "ocean")))
    with repo.transaction("main", message="first year") as store:
        array = zarr.create_group(store).create_array(
            "sst/mean", shape=(4, 4), chunks=(2, 2), dtype="f4"
        )
        array[:] = 1
    with repo.transaction("main", message="mend", metadata={"by": "me"}) as store:
        zarr.open_array(store, path="sst/mean")[0] = 2
    return repo


@pytest.fixture
def address(repo: Repository, tmp_path: Path) -> str:
    """Where the repository is."""
    return str(tmp_path / "ocean")
