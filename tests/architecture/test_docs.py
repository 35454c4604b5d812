"""Documents that are complete, current and true: their Python runs."""

import re
from pathlib import Path

import pytest

from icestream.errors import ErrorKind
from scripts import reference_pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOLD_IN_ORDER = [ROOT / "README.md", *sorted((DOCS / "tutorials").glob("*.md"))]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


@pytest.mark.parametrize("page", reference_pages.pages(), ids=lambda page: page.name)
def test_pages_made_from_the_code_are_current(page: Path) -> None:
    assert page.read_text() == reference_pages.pages()[page], "run `make reference`"


def test_every_command_has_help_and_a_section() -> None:
    page = (DOCS / "reference" / "cli.md").read_text()

    for words, command in reference_pages.commands():
        assert command.help, words
        assert f"### {words}\n" in page
        assert all(parameter.help for parameter in command.params), words


def test_every_kind_of_error_is_listed() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()

    assert [kind for kind in ErrorKind if f"| `{kind.value}` |" not in page] == []


@pytest.mark.parametrize("page", TOLD_IN_ORDER, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall(page.read_text())
    assert blocks

    names: dict[str, object] = {"__name__": page.stem}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)  # noqa: S102  our own text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []
