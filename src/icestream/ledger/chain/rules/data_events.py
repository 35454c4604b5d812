"""Rules for AddData and ExecuteTransform: offsets, watermarks and checkpoints are carried on."""

from icestream.ledger.blocks.events import AddData, DataEvent
from icestream.ledger.blocks.hashes import LOGICAL_CODE, PHYSICAL_CODE
from icestream.ledger.chain.states import ChainState


def event_is_not_empty(state: ChainState, event: DataEvent) -> str | None:
    """An event brings or repeats something: data, a checkpoint, a watermark, a source state."""
    del state
    source_state = event.new_source_state if isinstance(event, AddData) else None
    brought = (event.new_data, event.new_checkpoint, event.new_watermark, source_state)
    if all(part is None for part in brought):
        return "the event is empty: it has neither data nor checkpoint nor watermark"
    return None


def prev_offset_is_carried(state: ChainState, event: DataEvent) -> str | None:
    """`prevOffset` is the last record there is, absent if there is none (RFC-014)."""
    if event.prev_offset != state.last_offset:
        return f"prevOffset is {event.prev_offset}, but the last record is {state.last_offset}"
    return None


def offsets_are_sequential(state: ChainState, event: DataEvent) -> str | None:
    """New records follow `prevOffset` without a gap, from 0 if it is absent."""
    del state
    if event.new_data is None:
        return None
    expected = 0 if event.prev_offset is None else event.prev_offset + 1
    start = event.new_data.offset_interval.start
    if start != expected:
        return f"the new data start at offset {start}, not at {expected}"
    return None


def offset_interval_is_not_reversed(state: ChainState, event: DataEvent) -> str | None:
    """A slice has at least one record."""
    del state
    if event.new_data is None:
        return None
    interval = event.new_data.offset_interval
    if interval.end < interval.start:
        return f"the new data end at offset {interval.end}, before their start {interval.start}"
    return None


def slice_is_well_formed(state: ChainState, event: DataEvent) -> str | None:
    """A slice is a file with bytes in it, named by hashes of the two agreed functions."""
    del state
    new_data = event.new_data
    if new_data is None:
        return None
    if new_data.physical_hash.code != PHYSICAL_CODE:
        return f"physicalHash {new_data.physical_hash} is not a sha3-256"
    if new_data.logical_hash.code != LOGICAL_CODE:
        return f"logicalHash {new_data.logical_hash} is not an arrow0-sha3-256"
    if new_data.size <= 0:
        return f"the size of the new data is {new_data.size}, but no Parquet file is empty"
    return None


def checkpoint_is_well_formed(state: ChainState, event: DataEvent) -> str | None:
    """A checkpoint is named by a hash of the agreed function."""
    del state
    checkpoint = event.new_checkpoint
    if checkpoint is not None and checkpoint.physical_hash.code != PHYSICAL_CODE:
        return f"physicalHash {checkpoint.physical_hash} of the checkpoint is not a sha3-256"
    return None


def watermark_never_goes_back(state: ChainState, event: DataEvent) -> str | None:
    """A watermark once set is repeated or raised by every later event."""
    last, new = state.watermark, event.new_watermark
    if last is None:
        return None
    if new is None:
        return f"newWatermark is absent, but it was {last} before: repeat it"
    if new < last:
        return f"newWatermark {new} is before {last}"
    return None


def data_need_a_schema(state: ChainState, event: DataEvent) -> str | None:
    """Data come after the schema that describes them."""
    if event.new_data is not None and state.schema is None:
        return "there are new data, but no SetDataSchema before them"
    return None


def prev_checkpoint_is_carried(state: ChainState, event: DataEvent) -> str | None:
    """`prevCheckpoint` is the checkpoint of the event before, absent if that had none."""
    if event.prev_checkpoint != state.checkpoint:
        return (
            f"prevCheckpoint is {event.prev_checkpoint}, but the previous event left"
            f" {state.checkpoint}"
        )
    return None


def add_data_changes_something(state: ChainState, event: DataEvent) -> str | None:
    """Without data, the checkpoint, the watermark or the source state differ from the last."""
    previous = state.data_event
    if not (isinstance(event, AddData) and isinstance(previous, AddData)):
        return None
    if is_unchanged(state, event) and event.new_source_state == previous.new_source_state:
        return "nothing differs from the previous AddData: do not append it"
    return None


def is_unchanged(state: ChainState, event: DataEvent) -> bool:
    """Tell whether an event has no data, and the checkpoint and watermark that were there."""
    checkpoint = event.new_checkpoint and event.new_checkpoint.physical_hash
    return (
        event.new_data is None
        and checkpoint == event.prev_checkpoint
        and event.new_watermark == state.watermark
    )


RULES = (
    event_is_not_empty,
    prev_offset_is_carried,
    offsets_are_sequential,
    offset_interval_is_not_reversed,
    slice_is_well_formed,
    checkpoint_is_well_formed,
    watermark_never_goes_back,
    data_need_a_schema,
    prev_checkpoint_is_carried,
    add_data_changes_something,
)
