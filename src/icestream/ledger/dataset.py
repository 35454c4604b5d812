"""A dataset on a storage: its chain of blocks, and the records that they lead to.

>>> import pyarrow as pa
>>> from icestream.storage import in_memory_storage
>>> cities = Dataset.create(in_memory_storage(), "cities")
>>> added = cities.add_data(pa.table({"city": ["kyiv", "odesa"]}))
>>> cities.last_offset
1
>>> cities.to_arrow().column("city").to_pylist()
['kyiv', 'odesa']
>>> cities.history().column("event").to_pylist()
['AddData', 'SetDataSchema', 'Seed']

Events that bring no data are appended as they are:

>>> from icestream.ledger import SetInfo
>>> cities.append(SetInfo(description="where people live")) == cities.head
True
>>> [type(block.event).__name__ for block in cities.blocks()]
['SetInfo', 'AddData', 'SetDataSchema', 'Seed']

A derivative dataset knows what it consumed, and so what is next:

>>> from icestream.ledger import TransformOutput, read_snapshots
>>> [definition] = read_snapshots(f'''
... kind: DatasetSnapshot
... version: 1
... content:
...   name: large-cities
...   kind: Derivative
...   metadata:
...     - kind: SetTransform
...       inputs: [{{datasetRef: "{cities.dataset_id}", alias: cities}}]
...       transform: {{kind: Sql, engine: spark, query: select * from cities}}
... '''.encode())
>>> large = Dataset.create(in_memory_storage(), definition)
>>> plan = large.plan_transform([cities])
>>> plan.query_inputs[0].new_offset
1
>>> rows = cities.to_arrow().select(["event_time", "city"])
>>> large.write_transform(plan, TransformOutput(rows=rows.slice(0, 1))).record_count
1
>>> large.plan_transform([cities])
UpToDate(reason='no input has new records or watermarks')
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Self

import pyarrow as pa
import pyarrow.dataset as ds

from icestream.errors import NotFoundError
from icestream.ledger.active_sources import merge_strategy
from icestream.ledger.block_names import BlockName, find_block
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.dataset_ids import DatasetId, new_dataset_id
from icestream.ledger.blocks.events import DatasetKind, ExecuteTransform, MetadataEvent
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import DatasetSnapshot, ResolveId, creation_events
from icestream.ledger.blocks.sources import ReadStep
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain import rewriting
from icestream.ledger.chain.layout import ALIAS
from icestream.ledger.chain.leftovers import (
    DeletedLeftovers,
    Leftovers,
    delete_leftovers,
    find_leftovers,
)
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.planning import TransformPlan, UpToDate, check_inputs, plan_transform
from icestream.ledger.chain.rewriting import CompactionLimits, RewriteResult
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.verification import VerificationReport
from icestream.ledger.data.ingest_plan import IngestInput
from icestream.ledger.data_writing import AddedData, add_data, next_system_time
from icestream.ledger.dataset_versions import DatasetVersion
from icestream.ledger.ingestion import IngestSettings, poll_source, pushed_input
from icestream.ledger.slice_files import slice_merger
from icestream.ledger.transactions import TransformOutput, write_transform
from icestream.ledger.verifying import THREADS, verify_dataset
from icestream.storage.protocol import Storage


class Dataset:
    """One dataset, as it was when it was opened, refreshed or appended to.

    Many handles, in many processes, may write to one dataset: of two that start from the same
    block one wins, and the other gets a `ConflictError`. A handle itself is for one thread.
    """

    def __init__(self, chain: MetadataChain) -> None:
        self._chain = chain
        self._version = DatasetVersion(chain.store, chain.state)

    def __repr__(self) -> str:
        return f"Dataset({self.storage!r}, head={str(self.head)!r})"

    # -- creating and opening ---------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        storage: Storage,
        definition: DatasetSnapshot | str,
        *,
        dataset_id: DatasetId | None = None,
        resolve_input: ResolveId | None = None,
        system_time: Timestamp | None = None,
    ) -> Self:
        """Create a dataset at the root of a storage.

        Args:
            storage: An empty place.
            definition: What the dataset is called and starts with; a mere name makes a root
                dataset that takes every row as it comes.
            dataset_id: Its identity; a fresh one if None.
            resolve_input: Finds the datasets that a transform names; ids are found without.
            system_time: Of the first blocks; the time of the clock, if None.

        Raises:
            AlreadyExistsError: There is a dataset.
            InvalidInputError: The definition has events that belong into no definition, or inputs
                that do not exist.
        """
        if isinstance(definition, str):
            definition = DatasetSnapshot(name=DatasetAlias.parse(definition), kind=DatasetKind.ROOT)
        events = creation_events(
            definition, dataset_id or new_dataset_id(), resolve_input or (lambda _: None)
        )
        chain = MetadataChain.create(storage, events, system_time=system_time)
        storage.put(ALIAS, str(definition.name).encode())
        return cls(chain)

    @classmethod
    def open(cls, storage: Storage) -> Self:
        """Open the dataset at the root of a storage.

        Raises:
            NotFoundError: There is none.
            IntegrityError: A block that is needed is missing or damaged.
        """
        return cls(MetadataChain.open(storage))

    def refresh(self) -> None:
        """Take notice of what others appended."""
        self._chain.refresh()

    # -- what it is -------------------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """Where the dataset lies."""
        return self._chain.storage

    @property
    def chain(self) -> MetadataChain:
        """The chain of blocks."""
        return self._chain

    @property
    def state(self) -> ChainState:
        """What the chain says at its head: transform, vocabulary, sources, watermark and more."""
        return self._chain.state

    @property
    def head(self) -> Multihash:
        """The hash of the last block."""
        return self._chain.head

    @property
    def dataset_id(self) -> DatasetId:
        """The identity, wherever the dataset is stored."""
        return self.state.dataset_id

    @property
    def kind(self) -> DatasetKind:
        """Whether data come from outside or from other datasets."""
        return self.state.dataset_kind

    @property
    def alias(self) -> str | None:
        """The name that the dataset was created under, if that is noted."""
        try:
            return self.storage.get(ALIAS).decode(errors="replace").strip() or None
        except NotFoundError:
            return None

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record; None if there is none."""
        return self.state.last_offset

    @property
    def watermark(self) -> Timestamp | None:
        """The event time before which no more data are expected."""
        return self.state.watermark

    @property
    def schema(self) -> DataSchema | None:
        """The columns of the records; None before the first data."""
        return self.current.schema

    # -- blocks -----------------------------------------------------------------------------------

    def blocks(self, *, since: Multihash | None = None) -> Iterator[StoredBlock]:
        """Yield the blocks, newest first, down to but without `since`."""
        return self._chain.blocks(since=since)

    def find_block(self, name: BlockName) -> StoredBlock:
        """Return the block of a name.

        Raises:
            NotFoundError: There is none on the chain.
            InvalidInputError: There are several whose hashes end so.
        """
        return find_block(self.blocks(), name)

    def history(self) -> pa.Table:
        """Return the chain as a table, newest block first."""
        return self.current.history()

    def append(
        self,
        *events: MetadataEvent,
        inputs: Iterable["Dataset"] = (),
        system_time: Timestamp | None = None,
    ) -> Multihash:
        """Append events, each in a block of its own, and move the head once.

        Args:
            *events: In their order.
            inputs: What transactions say about these datasets is compared with them; about
                others it is believed.
            system_time: Of the blocks; the time of the clock, if None.

        Returns:
            The hash of the last block.

        Raises:
            ChainRuleError: An event breaks a rule, or an object it needs is missing.
            ConflictError: Somebody else appended first; nothing of the events is visible.
        """
        chains = {given.dataset_id: given.chain for given in inputs}
        for event in events:
            if isinstance(event, ExecuteTransform):
                check_inputs(event, chains)
        return self._chain.append(*events, system_time=system_time)

    # -- records ----------------------------------------------------------------------------------

    @property
    def current(self) -> DatasetVersion:
        """The dataset as of its head."""
        if self._version.block != self.head:
            self._version = DatasetVersion(self._chain.store, self.state, self._version)
        return self._version

    def as_of(self, block: BlockName) -> DatasetVersion:
        """Return the dataset as it was when a block was its last.

        Raises:
            NotFoundError: The block is not on the chain.
        """
        found = self.find_block(block)
        store = self._chain.store
        return DatasetVersion(store, ChainState.walked(store.walk(found)))

    def to_dataset(self) -> ds.Dataset:
        """Return the records as a PyArrow dataset, which reads only what a query needs."""
        return self.current.to_dataset()

    def to_arrow(self) -> pa.Table:
        """Return all records in offset order, with their system columns."""
        return self.current.to_arrow()

    def tail(self, count: int = 10) -> pa.Table:
        """Return the last records; only the blocks and files that hold them are read."""
        return self.current.tail(count)

    # -- ingestion --------------------------------------------------------------------------------

    def add_data(
        self,
        table: pa.Table | None,
        *,
        source_name: str | None = None,
        event_time: datetime | None = None,
        watermark: datetime | None = None,
        evolves_schema: bool = False,
        system_time: Timestamp | None = None,
    ) -> AddedData:
        """Merge rows into a root dataset, as its source declares it.

        The first data set the schema. Nothing new means no block. Source states of polling
        sources are carried on.

        Args:
            table: The rows, in arrival order; None to raise the watermark alone.
            source_name: Of the push source; may be left out where there is only one.
            event_time: For rows that have none; the system time if None.
            watermark: By hand; the latest event time of all records if None.
            evolves_schema: Let new columns that may be null extend the schema.
            system_time: Of the blocks and records; the time of the clock, if None.

        Raises:
            InvalidInputError: The dataset is derivative, or the rows do not fit.
            ConflictError: Somebody else appended first; nothing of the rows is visible.
        """
        given = IngestInput(
            table=table,
            strategy=merge_strategy(self.state, source_name),
            event_time=_moment(event_time),
            watermark=_moment(watermark),
            evolves_schema=evolves_schema,
        )
        return add_data(self._chain, self.current, given, system_time=system_time)

    def ingest(self, settings: IngestSettings | None = None) -> list[AddedData]:
        """Fetch what the polling source has, one transaction per file.

        Returns:
            What became of each file; nothing if the source has nothing new.

        Raises:
            NotFoundError: The dataset has no polling source.
            SourceError: The source, or a file of it, cannot be read; files before it are in.
            InvalidInputError: The source needs what `settings` does not have.
            ConflictError: Somebody else appended first.
        """
        settings = settings or IngestSettings()
        added: list[AddedData] = []
        has_more = True
        while has_more:
            moment = next_system_time(self.state)
            polled = poll_source(self.state, settings, system_time=moment)
            if polled is None:
                break
            added.append(add_data(self._chain, self.current, polled.given, system_time=moment))
            has_more = polled.has_more
        return added

    def ingest_file(
        self,
        data: bytes,
        *,
        source_name: str | None = None,
        read: ReadStep | None = None,
        event_time: datetime | None = None,
        settings: IngestSettings | None = None,
    ) -> AddedData:
        """Read a file that is handed in, and merge its rows.

        Args:
            data: The file.
            source_name: Of the push source; may be left out where there is only one.
            read: The format of the file; that of the source if None.
            event_time: For rows that have none; the system time if None.
            settings: What the ingestion may do.

        Raises:
            NotFoundError: There is no such source.
            SourceError: The file does not follow its format or schema.
            InvalidInputError: It is not known how to read the file, or its rows do not fit.
            ConflictError: Somebody else appended first.
        """
        settings = settings or IngestSettings()
        given = pushed_input(self.state, data, settings, source_name=source_name, read=read)
        given = replace(given, event_time=_moment(event_time))
        return add_data(self._chain, self.current, given)

    # -- derivation -------------------------------------------------------------------------------

    def plan_transform(self, inputs: Iterable["Dataset"]) -> TransformPlan | UpToDate:
        """Return the next transaction of a derivative dataset, or why there is none.

        Args:
            inputs: All datasets that its transform reads, in any order; each is consumed up to
                the head that its handle knows.

        Raises:
            InvalidInputError: The dataset has no transform.
            NotFoundError: An input is not among those given.
            DivergedInputError: An input was compacted or reset below what was consumed.
        """
        return plan_transform(self._chain, {given.dataset_id: given.chain for given in inputs})

    def write_transform(
        self, plan: TransformPlan, output: TransformOutput, *, system_time: Timestamp | None = None
    ) -> AddedData:
        """Append a transaction of a derivative dataset, also if nothing came out of it.

        Args:
            plan: From `plan_transform`.
            output: What the query made of the new records.
            system_time: Of the blocks and records; the time of the clock, if None.

        Raises:
            InvalidInputError: The output does not fit, or the plan is for another block.
            ConflictError: Somebody else appended first; nothing of the transaction is visible.
        """
        return write_transform(self._chain, plan, output, system_time=system_time)

    # -- care -------------------------------------------------------------------------------------

    def verify(
        self,
        *,
        checks_content: bool = True,
        since: Multihash | None = None,
        inputs: Iterable["Dataset"] = (),
        threads: int = THREADS,
    ) -> VerificationReport:
        """Verify every block against its hash and the rules, every file against its block.

        Args:
            checks_content: Whether to look into slices: columns, offsets, logical hashes. If not,
                only their sizes and physical hashes are compared.
            since: Files that are named up to this block are taken as verified.
            inputs: Datasets whose blocks show whether transactions tell the truth about them.
            threads: How many files are read at once.

        Raises:
            NotFoundError: The dataset is gone.
            InvalidInputError: `since` is not on the chain.
        """
        return verify_dataset(
            self.storage,
            checks_content=checks_content,
            since=since,
            inputs={given.dataset_id: given.chain.store for given in inputs},
            threads=threads,
        )

    def reset(self, block: BlockName) -> RewriteResult:
        """Move the head back to an earlier block.

        Derivative datasets that consumed later blocks find that this one diverged.

        Raises:
            NotFoundError: The block is not on the chain.
            ConflictError: Somebody else appended meanwhile.
        """
        return rewriting.reset(self._chain, self.find_block(block).block_hash)

    def compact(self, limits: CompactionLimits | None = None) -> RewriteResult:
        """Merge small slices of a root dataset into fewer; records keep their offsets.

        The blocks get other hashes, so derivative datasets find that this one diverged.

        Raises:
            InvalidInputError: The dataset is derivative: use `keep_metadata_only`.
            IntegrityError: A slice is missing or damaged.
            ConflictError: Somebody else appended meanwhile.
        """
        merger = slice_merger(self.storage, list(self.blocks())[::-1])
        return rewriting.compact(self._chain, merger, limits)

    def keep_metadata_only(self) -> RewriteResult:
        """Take all data events out of the chain, as if there had never been any.

        This is the way out for a derivative dataset whose input diverged.

        Raises:
            ConflictError: Somebody else appended meanwhile.
        """
        return rewriting.keep_metadata_only(self._chain)

    def find_garbage(self, older_than: datetime) -> Leftovers:
        """List what no block leads to: remains of commits that were cut off, lost or taken back.

        Args:
            older_than: Before the start of the longest writer that is under way.
        """
        return find_leftovers(self.storage, older_than=older_than)

    def collect_garbage(self, older_than: datetime) -> DeletedLeftovers:
        """Delete what `find_garbage` lists."""
        return delete_leftovers(self.storage, older_than=older_than)


def _moment(value: datetime | None) -> Timestamp | None:
    return None if value is None else Timestamp.from_datetime(value)
