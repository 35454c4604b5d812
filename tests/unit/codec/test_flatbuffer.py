"""The flatbuffer reader trusts nothing; the writer is checked with Google's own runtime."""

import struct
from typing import Any

import pytest
from flatbuffers import encode, number_types
from flatbuffers.table import Table

from icestream.codec.flatbuffer import FlatReader, FlatWriter, TableType
from icestream.errors import ErrorKind, FormatError

LEAF = TableType("Leaf", "count Q", "flag B")
ROOT = TableType("Root", "id 12s!", "number I", "text &!", "items &", "leaf &", "big Q", "extra &")
ID = bytes(range(12))


def write_root(*, text: str = "größe", items: list[int] | None = None, leaf: Any = None) -> bytes:
    writer = FlatWriter()
    packed = writer.structs(struct.Struct("<I"), [(i,) for i in items]) if items else None
    leaf_handle = None if leaf is None else writer.table(LEAF, *leaf)
    return writer.finish(writer.table(ROOT, ID, 7, writer.string(text), packed, leaf_handle, 2**60))


def test_values_are_read_back_by_slot() -> None:
    data = write_root(items=[1, 2, 3], leaf=(5, 1))
    reader = FlatReader(data, "f")
    id_, number, text, items, leaf, big, extra = reader.read_root(ROOT)

    assert (id_, number, big, extra) == (ID, 7, 2**60, 0)
    assert reader.string(text, "Root.text") == "größe"
    assert struct.unpack("<3I", reader.vector(items, "Root.items", 4)) == (1, 2, 3)
    assert reader.read(leaf, LEAF) == [5, 1]


def test_googles_runtime_reads_what_is_written() -> None:
    data = bytearray(write_root(items=[9], leaf=(5, 1)))
    root = Table(data, encode.Get(number_types.UOffsetTFlags.packer_type, data, 0))

    assert data[4:8] == b"Ichk"
    assert root.String(root.Pos + root.Offset(8)) == "größe".encode()
    assert root.VectorLen(root.Offset(10)) == 1
    assert root.Get(number_types.Uint64Flags, root.Pos + root.Offset(14)) == 2**60
    leaf = Table(data, root.Indirect(root.Pos + root.Offset(12)))
    assert leaf.Get(number_types.Uint64Flags, leaf.Pos + leaf.Offset(4)) == 5


@pytest.mark.parametrize("n_chars", range(12))
def test_trap_3_u64_fields_are_aligned_whatever_is_around_them(n_chars: int) -> None:
    data = bytearray(write_root(text="x" * n_chars, leaf=(5, 1), items=[1] * (n_chars % 3)))
    root = Table(data, encode.Get(number_types.UOffsetTFlags.packer_type, data, 0))
    leaf = Table(data, root.Indirect(root.Pos + root.Offset(12)))

    assert (root.Pos + root.Offset(14)) % 8 == 0
    assert (leaf.Pos + leaf.Offset(4)) % 8 == 0
    assert len(data) % 8 == 0


def test_equal_strings_and_layouts_are_written_once() -> None:
    writer = FlatWriter()
    handles = [writer.table(LEAF, 1, 0) for _ in range(10)]
    size = len(writer.finish(writer.offsets(handles)))

    assert writer.string("twice") == writer.string("twice")
    assert size < 10 * 20 + 60


def test_slots_of_a_newer_schema_are_ignored_and_missing_ones_are_absent() -> None:
    newer = TableType("Leaf", "count Q", "flag B", "unknown I")
    writer = FlatWriter()
    data = writer.finish(writer.table(newer, 5, 1, 9))
    assert FlatReader(data, "f").read_root(LEAF) == [5, 1]

    writer = FlatWriter()
    data = writer.finish(writer.table(LEAF, 5))
    assert FlatReader(data, "f").read_root(newer) == [5, 0, 0]


def test_a_missing_required_field_is_named() -> None:
    writer = FlatWriter()
    data = writer.finish(writer.table(ROOT, ID, 7))
    with pytest.raises(FormatError, match=r"^f: Root: .* lacks required fields: text"):
        FlatReader(data, "f").read_root(ROOT)


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0" * 8, b"\xff" * 64, b"\x08\0\0\0Ichk"])
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^f: Root: "):
        FlatReader(data, "f").read_root(ROOT)


def test_strings_must_be_utf_8() -> None:
    data = write_root(text="abcd").replace(b"abcd", b"ab\xffd")
    reader = FlatReader(data, "f")
    with pytest.raises(FormatError, match=r"^f: Root.text: is not UTF-8"):
        reader.string(reader.read_root(ROOT)[2], "Root.text")


def test_a_vector_that_claims_too_many_items_is_refused() -> None:
    reader = FlatReader(write_root(items=[1, 2, 3]), "f")
    items = reader.read_root(ROOT)[3]
    with pytest.raises(FormatError, match=r"^f: Root.items: the vector at \d+ is out of bounds"):
        reader.vector(items, "Root.items", 2**20)


def test_fields_that_overlap_or_leave_their_table_are_refused() -> None:
    data = bytearray(write_root())
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    for misplaced in (2, 5, 4000):
        struct.pack_into("<H", data, vtable + 4 + 2 * 5, misplaced)
        with pytest.raises(FormatError, match="outside the table or over another"):
            FlatReader(bytes(data), "f").read_root(ROOT)


def test_offsets_that_share_content_cannot_spell_out_more_than_the_budget() -> None:
    writer = FlatWriter()
    text = writer.string("x" * 100_000)
    data = writer.finish(writer.offsets([text] * 100_000))
    reader = FlatReader(data, "f")
    places = reader.positions(struct.unpack_from("<I", data)[0], "texts")
    with pytest.raises(FormatError, match="far more than the file has bytes for"):
        _ = [reader.string(place, "texts") for place in places]


@pytest.mark.parametrize("values", [(2**64, 0), (-1, 0), (0, 256), ("text", 0)])
def test_values_that_do_not_fit_are_refused(values: tuple[Any, ...]) -> None:
    with pytest.raises(FormatError, match="does not fit the table Leaf") as error:
        FlatWriter().table(LEAF, *values)
    assert error.value.kind is ErrorKind.SERIALIZATION


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(FormatError, match="cannot be written as UTF-8"):
        FlatWriter().string("\ud800")
