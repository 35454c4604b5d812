"""A dataset as of one block: its schema, its slices, its records."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.dataset as ds

from icestream.errors import IntegrityError, NotFoundError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import AddData, DataSlice, ExecuteTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.prefetching import walk_ahead
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.data.arrow_schemas import from_arrow_schema, schema_of_event
from icestream.ledger.data.reading import open_slices, read_records
from icestream.ledger.data.reading import tail as read_tail
from icestream.ledger.data.system_columns import (
    OFFSET_TYPE,
    OPERATION_TYPE,
    TIME_TYPE,
    SystemColumns,
)
from icestream.ledger.history import history_table
from icestream.ledger.slice_files import find_damage
from icestream.storage.protocol import Storage


class DatasetVersion:
    """What a dataset held when one block was its last; it never changes.

    Blocks and files are read when they are needed. The list of slices is kept, and a later version
    that is made with this one as `known` walks only over the blocks between the two.
    """

    def __init__(
        self, store: BlockStore, state: ChainState, known: "DatasetVersion | None" = None
    ) -> None:
        self._store = store
        self._state = state
        self._known = known
        self._slices: tuple[DataSlice, ...] | None = None

    def __repr__(self) -> str:
        return f"DatasetVersion({self.storage!r}, block={str(self.block)!r})"

    @property
    def storage(self) -> Storage:
        """Where the dataset lies."""
        return self._store.storage

    @property
    def block(self) -> Multihash:
        """The hash of the last block."""
        return self._state.head.block_hash

    @property
    def state(self) -> ChainState:
        """What the chain says at that block."""
        return self._state

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record; None if there is none."""
        return self._state.last_offset

    @property
    def record_count(self) -> int:
        """How many records there are, retractions and corrections included."""
        return self._state.next_offset

    @property
    def watermark(self) -> Timestamp | None:
        """The event time before which no more data are expected."""
        return self._state.watermark

    @property
    def system_columns(self) -> SystemColumns:
        """What the system columns are called."""
        return SystemColumns.of(self._state.vocabulary)

    @property
    def schema(self) -> DataSchema | None:
        """The columns of slices; None before the first data.

        Raises:
            FormatError: The schema is in the legacy form, and damaged.
        """
        event = self._state.schema
        return None if event is None else schema_of_event(event, name=str(self.block))

    @property
    def record_schema(self) -> DataSchema:
        """The columns of the records: before the first data, the system columns alone."""
        return self.schema or _empty_schema(self.system_columns)

    def slices(self) -> tuple[DataSlice, ...]:
        """Return the files that hold the records, in offset order."""
        if self._slices is None:
            self._slices = self._walk()
            self._known = None  # it is in the list now
        return self._slices

    def blocks(self) -> Iterator[StoredBlock]:
        """Yield the blocks, newest first, reading each when it is asked for."""
        return self._store.walk(self._state.head)

    def history(self) -> pa.Table:
        """Return the chain as a table, newest block first."""
        return history_table(self._many_blocks(self._state.head.sequence_number + 1))

    def to_dataset(self) -> ds.Dataset:
        """Return the records as a PyArrow dataset, which reads only what a query needs."""
        return self._open(self.slices())

    def to_arrow(self) -> pa.Table:
        """Return all records in offset order, with their system columns.

        Raises:
            IntegrityError: A slice is missing or damaged.
        """
        slices = self.slices()
        with self._damage_is_told(slices):
            records = read_records(self._open(slices), self.record_schema)
        return self._complete(records, slices, self.record_count)

    def tail(self, count: int = 10) -> pa.Table:
        """Return the last records; only the blocks and files that hold them are read.

        Raises:
            InvalidInputError: The count is negative.
            IntegrityError: A slice is missing or damaged.
        """
        first = self._state.next_offset - count
        slices = tuple(self._newest(first))[::-1] if self._slices is None else self._slices
        with self._damage_is_told(slices):
            records = read_tail(
                self._open(slices),
                count,
                last_offset=self.last_offset,
                columns=self.system_columns,
            )
        return self._complete(records, slices, min(count, self.record_count))

    @contextmanager
    def _damage_is_told(self, slices: Sequence[DataSlice]) -> Iterator[None]:
        """Name the file that Arrow cannot read."""
        try:
            yield
        except (NotFoundError, pa.ArrowException, OSError) as error:
            raise self._damage(slices, str(error)) from error

    def _complete(self, records: pa.Table, slices: Sequence[DataSlice], count: int) -> pa.Table:
        """Accept records if there are as many as offsets: they have no gaps."""
        if len(records) != count:
            raise self._damage(slices, f"there are {len(records)} records, not {count}")
        return records

    def _damage(self, slices: Sequence[DataSlice], problem: str) -> IntegrityError:
        found = find_damage(self.storage, slices, self.system_columns)
        told = f"a slice cannot be read: {problem}" if found is None else str(found)
        return IntegrityError(
            f"{told}; verify the dataset to learn what else is damaged",
            rule=(found and found.rule) or "slice-holds-its-records",
        )

    def _open(self, slices: tuple[DataSlice, ...]) -> ds.Dataset:
        return open_slices(self.storage, slices, self.record_schema, columns=self.system_columns)

    def _many_blocks(self, count: int) -> Iterator[StoredBlock]:
        return walk_ahead(self._store, self._state.head, count)

    def _newest(self, first_offset: int) -> Iterator[DataSlice]:
        """Yield slices, newest first, down to the one with an offset."""
        for data_slice in _walked_slices(self.blocks()):
            yield data_slice
            if data_slice.offset_interval.start <= first_offset:
                return

    def _walk(self) -> tuple[DataSlice, ...]:
        known = self._known
        newer: list[StoredBlock] = []
        first = -1 if known is None else known.state.head.sequence_number
        for block in self._many_blocks(self._state.head.sequence_number - first):
            if known is not None and block.block_hash == known.block:
                return known.slices() + tuple(_walked_slices(iter(newer)))[::-1]
            newer.append(block)
        return tuple(_walked_slices(iter(newer)))[::-1]


def _walked_slices(blocks: Iterator[StoredBlock]) -> Iterator[DataSlice]:
    """Yield the slices of blocks that come newest first."""
    for block in blocks:
        event = block.event
        if not isinstance(event, AddData | ExecuteTransform):
            continue
        if event.new_data is not None:
            yield event.new_data
        if event.prev_offset is None:  # there are no records before it
            return


def _empty_schema(columns: SystemColumns) -> DataSchema:
    types = (OFFSET_TYPE, OPERATION_TYPE, TIME_TYPE, TIME_TYPE)
    return from_arrow_schema(pa.schema(list(zip(columns.names, types, strict=True))))
