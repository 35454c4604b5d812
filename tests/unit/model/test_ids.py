import pytest

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.ids import (
    INITIAL_SNAPSHOT_ID,
    NODE_ID_SIZE,
    find_object_id,
    id_text,
    new_manifest_id,
    new_node_id,
    parse_id,
    parse_snapshot_id,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes(range(12)), "000G40R40M30E209185G"),
        (bytes(range(8)), "000G40R40M30E"),
        (b"\xff" * 12, "ZZZZZZZZZZZZZZZZZZZG"),
        (b"\xff" * 8, "ZZZZZZZZZZZZY"),
        (INITIAL_SNAPSHOT_ID, "1CECHNKREP0F1RSTCMT0"),
    ],
)
def test_ids_have_one_text(data, text):
    assert id_text(data) == text
    assert parse_id(text, len(data)) == data


def test_look_alike_letters_and_lower_case_are_read():
    assert parse_snapshot_id("1cechnkrepof1rstcmt0") == INITIAL_SNAPSHOT_ID
    assert parse_id("OIL" + "0" * 10, NODE_ID_SIZE) == parse_id("011" + "0" * 10, NODE_ID_SIZE)


@pytest.mark.parametrize(
    "text", ["", "1CECHNKREP0F1RSTCMT", "1CECHNKREP0F1RSTCMT00", "U" * 20, "é" * 20]
)
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidInputError) as raised:
        parse_snapshot_id(text)
    assert raised.value.kind is ErrorKind.INVALID_SNAPSHOT_ID


def test_stray_file_names_are_not_ids():
    assert find_object_id("1CECHNKREP0F1RSTCMT0") == INITIAL_SNAPSHOT_ID
    assert find_object_id("1cechnkrep0f1rstcmt0") is None
    assert find_object_id("ZZZZZZZZZZZZZZZZZZZZ") is None
    assert find_object_id(".tmp123") is None


def test_new_ids_differ():
    assert len({new_manifest_id() for _ in range(100)}) == 100
    assert len(new_node_id()) == NODE_ID_SIZE
