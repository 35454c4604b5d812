"""Imports point down; `pyproject.toml` says where down is."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_contracts_about_imports_are_kept() -> None:
    # a cached graph does not notice that a module which was absent is there
    linter = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(linter, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  our own tool

    assert done.returncode == 0, done.stdout + done.stderr
