"""Names of datasets."""

import json
from pathlib import Path

import pytest

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.names import DatasetAlias, NamePattern

FACTS = json.loads((Path(__file__).parents[3] / "vectors/odf/identifiers.json").read_text())


@pytest.mark.parametrize("text", ["a", "net.example.stations", "acme/net.example-2.x", "a" * 100])
def test_aliases_keep_their_spelling(text: str):
    assert str(DatasetAlias.parse(text)) == text


def test_case_is_kept_but_does_not_matter():
    one, other = DatasetAlias.parse("Acme/Net.Example"), DatasetAlias.parse("acme/net.example")

    assert one == other
    assert len({one, other}) == 1
    assert str(one) == "Acme/Net.Example"
    assert DatasetAlias.parse("A") < DatasetAlias.parse("b") < DatasetAlias.parse("C")


def test_the_account_is_part_of_an_alias():
    assert DatasetAlias.parse("a/x") != DatasetAlias.parse("x")


@pytest.mark.parametrize(
    "text", ["", ".", "a.", "-a", "a--b", "a_b", "a b", "/a", "a/", "a/b/c", "é", "a\n", "a" * 101]
)
def test_other_texts_are_no_aliases(text: str):
    with pytest.raises(InvalidInputError, match="is no name of a dataset"):
        DatasetAlias.parse(text)


@pytest.mark.parametrize("text", FACTS["patterns"]["valid"])
def test_patterns_are_names_with_percent_signs(text: str):
    assert NamePattern(text).matches(text.replace("%", "x"))


@pytest.mark.parametrize("text", FACTS["patterns"]["invalid"])
def test_other_texts_are_no_patterns(text: str):
    with pytest.raises(InvalidInputError, match="is no pattern"):
        NamePattern(text)


def test_a_pattern_matches_whole_names():
    pattern = NamePattern("net.%.stations")

    assert pattern.matches("NET.example.stations")
    assert pattern.matches("net..stations")
    assert not pattern.matches("net.example.stations2")
    assert not pattern.matches("netxexample.stations")
