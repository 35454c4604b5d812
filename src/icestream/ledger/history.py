"""The history of a dataset as a table: one row per block."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from icestream.ledger.blocks.events import AddData, DataEvent, ExecuteTransform
from icestream.ledger.chain.stored_blocks import StoredBlock

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("block_hash", pa.string(), nullable=False),
        pa.field("system_time", pa.timestamp("ns", "UTC"), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("prev_offset", pa.int64()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("watermark", pa.timestamp("ns", "UTC")),
        pa.field("source_state", pa.string()),
    ]
)
"""`last_offset` is carried through events without data; `first_offset` is that of a slice."""


def history_table(blocks: Iterable[StoredBlock]) -> pa.Table:
    """Return a table with a row per block, in the order that they come."""
    return pa.Table.from_pylist([_row(block) for block in blocks], schema=HISTORY_SCHEMA)


def _row(block: StoredBlock) -> dict[str, Any]:
    event = block.event
    row = {
        "sequence_number": block.sequence_number,
        "block_hash": str(block.block_hash),
        "system_time": block.block.system_time.epoch_ns,
        "event": type(event).__name__,
        "records": 0,
        "size_bytes": 0,
    }
    return row | _data_row(event) if isinstance(event, AddData | ExecuteTransform) else row


def _data_row(event: DataEvent) -> dict[str, Any]:
    watermark, data_slice = event.new_watermark, event.new_data
    state = event.new_source_state if isinstance(event, AddData) else None
    row: dict[str, Any] = {
        "prev_offset": event.prev_offset,
        "last_offset": event.last_offset,
        "watermark": None if watermark is None else watermark.epoch_ns,
        "source_state": None if state is None else state.value,
    }
    if data_slice is None:
        return row
    return row | {
        "first_offset": data_slice.offset_interval.start,
        "records": data_slice.offset_interval.count,
        "size_bytes": data_slice.size,
    }
