"""The pages about archives say what the code says."""

import re
from pathlib import Path

import pytest

from icestream.ingest.declaration import documents
from icestream.ingest.declaration.archives import PlaceBy, Policies
from icestream.ingest.declaration.documents import archive_tree, decode_archive
from icestream.parsers.formats import FileFormat

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = DOCS / "reference" / "archive-declaration.md"
HOW_TO = DOCS / "how-to" / "ingest-an-archive.md"
ROW = re.compile(r"^\| `([\w.-]+)` \| (.+?) \| (.+) \|$", re.MULTILINE)
YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def rows() -> dict[str, tuple[str, str]]:
    """Default and meaning by key."""
    found = ROW.findall(REFERENCE.read_text())
    assert len({key for key, *_ in found}) == len(found)
    return {key: (default, meaning) for key, default, meaning in found}


def test_every_key_has_a_row_and_every_row_a_key(rows) -> None:
    inner = {
        "combine": documents._COMBINE_KEYS,
        "policies": tuple(documents._POLICIES),
        "target": documents._TARGET_KEYS,
        "parser": ("name", "options"),
    }
    items = (documents._AXIS_KEYS, documents._PLACE_TEXTS, documents._PLACE_SWITCHES)
    known = {*documents._KEYS, *(key for keys in items for key in keys)}
    known |= {f"{part}.{key}" for part, keys in inner.items() for key in keys}
    assert set(rows) == known


def test_every_choice_is_told_with_its_default(rows) -> None:
    default = Policies()
    for key, choices in documents._POLICIES.items():
        told, meaning = rows[f"policies.{key}"]
        assert told == f"`{getattr(default, key.replace('-', '_')).value}`"
        assert [choice for choice in choices if f"`{choice.value}`" not in meaning] == []
    assert [by for by in PlaceBy if f"`{by.value}`" not in rows["by"][1]] == []
    assert [form for form in FileFormat if f"`{form.value}`" not in rows["parser.name"][1]] == []


@pytest.mark.parametrize("key", documents._POLICIES)
def test_every_policy_is_shown_at_work(key: str) -> None:
    text = HOW_TO.read_text()
    for choice in documents._POLICIES[key]:
        assert f"{key}: {choice.value}" in text


@pytest.mark.parametrize("page", [REFERENCE, HOW_TO], ids=lambda page: page.name)
def test_declarations_on_pages_are_valid(page: Path) -> None:
    blocks = YAML_BLOCK.findall(page.read_text())
    assert blocks
    whole = blocks[0]
    for block in [whole, *(f"{_without(whole, block)}\n{block}" for block in blocks[1:])]:
        archive = decode_archive(block.encode(), name=page.name)
        assert decode_archive(documents.encode_archive(archive)) == archive
        assert archive_tree(archive)["name"] == archive.name


def _without(whole: str, part: str) -> str:
    """Return the first declaration of a page without the keys that a part of one sets anew."""
    keys = re.findall(r"^[\w-]+(?=:)", part, re.MULTILINE)
    for key in keys:
        whole = re.sub(rf"^{key}:.*\n(?:^[ #].*\n)*", "", whole, flags=re.MULTILINE)
    return whole
