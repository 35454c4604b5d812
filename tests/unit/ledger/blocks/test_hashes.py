"""Multihashes and the texts that spell them."""

import json
from pathlib import Path

import pytest

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.hashes import LOGICAL_CODE, PHYSICAL_CODE, Multihash, sha3_256
from icestream.ledger.blocks.varints import encode_varint

FACTS = json.loads((Path(__file__).parents[3] / "vectors/odf/identifiers.json").read_text())
OURS, SHA2 = FACTS["hashes"]


def test_hashes_have_the_published_text():
    found = sha3_256(OURS["text"].encode())

    assert str(found) == OURS["base16"]
    assert found.to_base58() == OURS["base58"]
    assert found.short == OURS["short"]
    assert found.code == PHYSICAL_CODE


@pytest.mark.parametrize(
    ("text", "base16"),
    [
        (OURS["base16_upper"], OURS["base16"]),
        (OURS["base58"], OURS["base16"]),
        (SHA2["base58"], SHA2["base16"]),
    ],
)
def test_every_base_spells_the_same_hash(text: str, base16: str):
    assert str(Multihash.parse(text)) == base16


def test_base64url_is_read():
    found = Multihash.parse("uFiAIw3krKk3u0b1-ojKPtd5VMezPD7-gSn2ADNwmcTfGNQ")

    assert str(found) == OURS["base16"]


def test_logical_hashes_announce_themselves():
    logical = Multihash(LOGICAL_CODE, bytes(32))

    assert FACTS["logical"]["code"] == LOGICAL_CODE
    assert encode_varint(LOGICAL_CODE).hex() == FACTS["logical"]["varint"]
    assert str(logical).startswith(FACTS["logical"]["prefix"])
    assert Multihash.parse(str(logical)) == logical


def test_leading_zeros_survive_base_58():
    zeros = Multihash(0, bytes(3))

    assert Multihash.parse(zeros.to_base58()) == zeros


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "starts with none of"),
        ("m1620", "starts with none of"),
        ("f16", "does not start with a number"),
        ("f162", "no multibase text"),
        ("f1620" + "00" * 31, "a digest of 32 bytes has 31"),
        ("f1621" + "00" * 33, "a digest of 33 bytes is not supported"),
        ("f1600", "a digest of 0 bytes is not supported"),
        ("f960020" + "00" * 32, "does not start with a number"),
        ("z0OIl", "no multibase text"),
        ("uFiAI=", "padding"),
        ("uFiAIw3krKk3u0b1+ojKPtd5VMezPD7+gSn2ADNwmcTfGNQ", "no multibase text"),
        ("f" * 600, "600 characters"),
        (OURS["base16"] + "\n", "no multibase text"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str):
    with pytest.raises(InvalidInputError, match=reason):
        Multihash.parse(text)


def test_hashes_sort_by_code_then_digest():
    hashes = [Multihash(2, b"a"), Multihash(1, b"b"), Multihash(1, b"a")]

    assert sorted(hashes) == hashes[::-1]
