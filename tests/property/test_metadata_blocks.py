"""Metadata blocks: any value survives, and any bytes give a value or IntegrityError."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ledger_strategies import EVENT_TYPES, blocks, events, timestamps

from icestream.errors import IntegrityError, InvalidInputError
from icestream.ledger.blocks.decoding import decode_block, manifest_version
from icestream.ledger.blocks.documents import (
    DocumentForm,
    block_from_tree,
    read_documents,
    write_document,
)
from icestream.ledger.blocks.encoding import encode_block
from icestream.ledger.blocks.events import MetadataBlock
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.times import Timestamp

NOON = Timestamp(2024, 60, 43_200)


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=20)
@given(data=st.data())
def test_every_event_survives_encoding(event_type: type, version: int, data: st.DataObject):
    event = data.draw(events(event_type))
    block = MetadataBlock(system_time=NOON, sequence_number=0, event=event)

    encoded = encode_block(block, version=version)

    assert decode_block(encoded) == block
    assert manifest_version(encoded) == version


@given(blocks())
def test_equal_blocks_have_equal_bytes(block: MetadataBlock):
    encoded = encode_block(block)

    assert encode_block(decode_block(encoded)) == encoded


@given(blocks(), st.sampled_from(DocumentForm))
def test_every_block_survives_as_a_document(block: MetadataBlock, form: DocumentForm):
    written = write_document(block, form=form)

    assert read_documents(written, form=form) == (block,)


@given(blocks(), st.data())
def test_damaged_blocks_give_a_value_or_an_integrity_error(
    block: MetadataBlock, data: st.DataObject
):
    damaged = bytearray(encode_block(block))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from([0, 1, 2, 4, 127, 128, 255]))

    with suppress(IntegrityError):
        decode_block(bytes(damaged), name="blocks/f1620ab")


@settings(max_examples=20)
@given(blocks())
def test_truncated_blocks_are_refused(block: MetadataBlock):
    encoded = encode_block(block)

    for length in range(0, len(encoded) - 8, 1 + len(encoded) // 50):
        with suppress(IntegrityError):
            assert decode_block(encoded[:length]) == block


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_by_name(data: bytes):
    with pytest.raises(IntegrityError, match=r"^blocks/f1620ab "):
        decode_block(data, name="blocks/f1620ab")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("kind"), inner),
        max_leaves=10,
    )
)
def test_random_trees_are_refused(tree: object):
    with pytest.raises(InvalidInputError, match=r"^block"):
        block_from_tree(tree)


@given(timestamps)
def test_times_survive_as_text_and_numbers(moment: Timestamp):
    assert Timestamp.parse(str(moment)) == moment
    assert Timestamp.from_epoch_ns(moment.epoch_ns) == moment
    assert Timestamp.from_datetime(moment.to_datetime()) <= moment


@given(timestamps, timestamps)
def test_times_are_ordered_as_they_pass(one: Timestamp, other: Timestamp):
    assert (one < other) == (one.epoch_ns < other.epoch_ns)


@given(st.text(max_size=40) | st.text("fFzu0123456789abcdefABCDEF+-_=", max_size=80))
def test_a_text_is_a_hash_or_refused(text: str):
    with suppress(InvalidInputError):
        found = Multihash.parse(text)

        assert Multihash.parse(str(found)) == Multihash.parse(found.to_base58()) == found


@given(st.text("ab.-/%", max_size=8))
def test_a_text_is_an_alias_or_refused(text: str):
    with suppress(InvalidInputError):
        assert str(DatasetAlias.parse(text)) == text
