"""Named metadata values inside a flatbuffer, as snapshots and the repo info have them."""

from collections.abc import Mapping
from typing import Any

from icestream.codec.flatbuffer import FlatReader, FlatWriter, TableType
from icestream.codec.metadata_values import decode_value, encode_value

METADATA_ITEM = TableType("MetadataItem", "name &!", "value &!")

_VALUE_COST = 8
"""Decoding a byte of a value takes that much longer than copying one."""


def write_metadata(writer: FlatWriter, metadata: Mapping[str, Any], spec: int) -> int:
    """Write the vector of metadata items, ordered by name."""
    return writer.offsets(
        [
            writer.table(
                METADATA_ITEM,
                writer.string(name),
                writer.vector(encode_value(metadata[name], spec)),
            )
            for name in sorted(metadata)  # code point order is the order of the UTF-8 bytes
        ]
    )


def read_metadata(reader: FlatReader, start: int, spec: int) -> dict[str, Any]:
    """Return the metadata in the vector at `start`."""
    items: dict[str, Any] = {}
    for position in reader.positions(start, "metadata"):
        name, value = reader.read(position, METADATA_ITEM)
        key = reader.string(name, "MetadataItem.name")
        if key in items:
            raise reader.wrong("metadata", f"{key!r} is there twice")
        items[key] = decode_value(
            reader.vector(value, "MetadataItem.value", cost=_VALUE_COST),
            spec,
            name=f"{reader.name}: metadata {key!r}",
        )
    return items
