"""Sizes and habits that no linter checks."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "icestream"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_MODULE = 500
VAGUE_NAMES = {"base", "common", "core", "helpers", "misc", "util", "utils"}
MAY_BE_VAGUE = {"repository/core.py"}
"""`repository/core.py` holds what the parts of one class share; nothing else imports it."""

IMPORT_NAMES = {"pyyaml": "yaml"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_lives_in_it(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = {str(p.relative_to(SOURCE)) for p in MODULES if p.stem in VAGUE_NAMES}

    assert vague <= MAY_BE_VAGUE


def test_declared_dependencies_are_those_that_the_code_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {_distribution(text) for text in project["dependencies"]}
    imported = {name for path in MODULES for name in _named_packages(path)}

    assert {name for name in declared if IMPORT_NAMES.get(name, name) not in imported} == set()


def test_nothing_points_at_the_machine_it_was_written_on() -> None:
    texts = [p for p in ROOT.rglob("*.md") if not {".venv", ".cache", ".tools"} & set(p.parts)]
    marks = (*(f"/{home}/" for home in ("work", "root", "home")), "file:///tmp")

    assert [p for p in [*texts, *MODULES] if any(m in p.read_text() for m in marks)] == []


def _distribution(requirement: str) -> str:
    return requirement.partition(">")[0].partition("[")[0].strip()


def _named_packages(path: Path) -> set[str]:
    """Return what a module imports, or loads by name."""
    tree = ast.walk(ast.parse(path.read_text()))
    names: set[str] = set()
    for node in tree:
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name.partition(".")[0] for alias in aliases}
            case ast.ImportFrom(module=str(module)):
                names.add(module.partition(".")[0])
            case ast.Constant(value=str(text)) if text.isidentifier():
                names.add(text)
    return names
