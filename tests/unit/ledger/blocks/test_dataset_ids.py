"""Identities of datasets."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.ledger_strategies import seeded_dataset_id

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.dataset_ids import DatasetId, new_dataset_id, new_dataset_key

FACTS = json.loads((Path(__file__).parents[3] / "vectors/odf/identifiers.json").read_text())
SAME_KEY, OTHER_BASE = FACTS["dids"]


def test_an_id_is_also_a_did_key():
    dataset_id = DatasetId.parse(SAME_KEY["odf"])

    assert dataset_id.did_key == SAME_KEY["key"]
    assert str(dataset_id) == SAME_KEY["odf"]
    assert DatasetId.from_bytes(dataset_id.to_bytes()) == dataset_id


def test_other_bases_are_read():
    assert DatasetId.parse(OTHER_BASE["odf_base58"]) == seeded_dataset_id(OTHER_BASE["seed"])


@pytest.mark.parametrize("seed", FACTS["seeded"])
def test_seeded_ids_are_those_of_other_test_suites(seed: str):
    assert str(seeded_dataset_id(seed)) == FACTS["seeded"][seed]


def test_new_ids_are_keys_of_their_own():
    key = new_dataset_key()
    public_key = Ed25519PrivateKey.from_private_bytes(key.private_key).public_key()

    assert key.dataset_id.public_key == public_key.public_bytes_raw()
    assert key.dataset_id not in {new_dataset_id(), new_dataset_id()}


def test_private_keys_are_not_shown():
    key = new_dataset_key()

    assert repr(key.private_key) not in repr(key)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("net.example", "lacks 'did:odf:'"),
        (SAME_KEY["key"], "lacks 'did:odf:'"),
        ("did:odf:", "no multibase text"),
        ("did:odf:f1620" + "00" * 32, "does not announce an ed25519 key"),
        ("did:odf:fed01" + "00" * 31, "32 bytes, not 31"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str):
    with pytest.raises(InvalidInputError, match=reason):
        DatasetId.parse(text)
