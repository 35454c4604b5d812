"""Adds data to a root dataset: one slice, one or two blocks, one move of the head."""

from collections.abc import Sequence
from dataclasses import dataclass

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.events import AddData, DatasetKind, DataSlice, SetDataSchema
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.states import ChainState
from icestream.ledger.data.ingest_plan import IngestInput, IngestState, needs_records, plan_ingest
from icestream.ledger.dataset_versions import DatasetVersion
from icestream.ledger.slice_files import save_slice


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedData:
    """What became of data that were to be added."""

    old_head: Multihash
    new_head: Multihash
    data_slice: DataSlice | None = None
    """The new records; None if there are none."""

    @property
    def record_count(self) -> int:
        """How many records were added."""
        return 0 if self.data_slice is None else self.data_slice.offset_interval.count

    @property
    def is_up_to_date(self) -> bool:
        """Whether there was nothing new, and no block was written."""
        return self.old_head == self.new_head


def add_data(
    chain: MetadataChain,
    version: DatasetVersion,
    given: IngestInput,
    *,
    system_time: Timestamp | None = None,
) -> AddedData:
    """Append what an input adds to a dataset, or nothing if it adds nothing.

    Args:
        chain: Of the dataset.
        version: The dataset at the head of the chain.
        given: The input, and how it is merged.
        system_time: Of the blocks and the records; the time of the clock, if None.

    Raises:
        InvalidInputError: The dataset is derivative, or the input does not fit.
        ConflictError: Somebody else appended first; nothing of the input is visible.
    """
    require_root(chain.state)
    moment = system_time or next_system_time(chain.state)
    plan = plan_ingest(given, _ingest_state(version, given), system_time=moment)
    if plan.data_slice is not None:
        save_slice(chain.storage, plan.data_slice)
    return append_data(chain, plan.events, system_time=moment)


def append_data(
    chain: MetadataChain, events: Sequence[SetDataSchema | AddData], *, system_time: Timestamp
) -> AddedData:
    """Append the events of data whose slice is saved already; none if there is nothing new.

    Raises:
        ConflictError: Somebody else appended first; nothing of the data is visible.
    """
    old_head = chain.head
    if events:
        chain.append(*events, system_time=system_time)
    slices = [event.new_data for event in events if isinstance(event, AddData)]
    return AddedData(
        old_head=old_head, new_head=chain.head, data_slice=slices[-1] if slices else None
    )


def next_system_time(state: ChainState) -> Timestamp:
    """Return the time of the clock, but none before that of the last block."""
    return max(Timestamp.now(), state.head.block.system_time)


def require_root(state: ChainState) -> None:
    """Accept a root dataset.

    Raises:
        InvalidInputError: The dataset is derivative.
    """
    if state.dataset_kind is DatasetKind.DERIVATIVE:
        raise InvalidInputError(
            f"{state.dataset_id} is a derivative dataset: its data come from its inputs, through"
            " its transform"
        )


def _ingest_state(version: DatasetVersion, given: IngestInput) -> IngestState:
    state = version.state
    last = state.data_event
    is_needed = given.table is not None and needs_records(given.strategy)
    return IngestState(
        columns=version.system_columns,
        schema=version.schema,
        last=last if isinstance(last, AddData) else None,
        previous=version.to_arrow() if is_needed and state.last_offset is not None else None,
    )
