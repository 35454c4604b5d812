"""The thirteen events of a metadata chain, and the block that carries one.

Absent and zero are different everywhere: offset 0 is the first record, None is no record.
"""

from dataclasses import dataclass
from enum import StrEnum

from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.sources import FetchStep, MergeStrategy, PrepStep, ReadStep
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.blocks.transforms import Transform, TransformInput

type MetadataEvent = (
    AddData
    | ExecuteTransform
    | Seed
    | SetPollingSource
    | SetTransform
    | SetVocab
    | SetAttachments
    | SetInfo
    | SetLicense
    | SetDataSchema
    | AddPushSource
    | DisablePushSource
    | DisablePollingSource
)
type DataEvent = AddData | ExecuteTransform
type Attachments = AttachmentsEmbedded


class DatasetKind(StrEnum):
    """Whether data come from outside or from other datasets."""

    ROOT = "Root"
    DERIVATIVE = "Derivative"


# -- parts of data events -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetInterval:
    """Offsets of records, from `start` to `end`, both included."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSlice:
    """A file of records."""

    logical_hash: Multihash
    physical_hash: Multihash
    offset_interval: OffsetInterval
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A file in which an engine keeps what it needs for its next run."""

    physical_hash: Multihash
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """How far a source was read: an ETag, a time of modification, the last file."""

    source_name: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteTransformInput:
    """How far one input was read (RFC-014).

    Blocks `(prev_block_hash, new_block_hash]` and records `(prev_offset, new_offset]` are
    consumed. Where there is nothing new the `new` value is absent; the `prev` one is carried.
    """

    dataset_id: DatasetId
    prev_block_hash: Multihash | None = None
    new_block_hash: Multihash | None = None
    prev_offset: int | None = None
    new_offset: int | None = None

    @property
    def last_block_hash(self) -> Multihash | None:
        """The last block of the input that was considered, in this event or before."""
        return self.prev_block_hash if self.new_block_hash is None else self.new_block_hash

    @property
    def last_offset(self) -> int | None:
        """The last record of the input that was consumed, in this event or before."""
        return self.prev_offset if self.new_offset is None else self.new_offset


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AddData:
    """Data came into a root dataset, or its watermark or source state advanced."""

    prev_checkpoint: Multihash | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: Timestamp | None = None
    new_source_state: SourceState | None = None
    extra: ExtraAttributes | None = None

    @property
    def last_offset(self) -> int | None:
        """The last record of the dataset after this event, None if there is none."""
        return self.new_data.offset_interval.end if self.new_data else self.prev_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteTransform:
    """A transform read its inputs further."""

    query_inputs: tuple[ExecuteTransformInput, ...]
    prev_checkpoint: Multihash | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: Timestamp | None = None

    @property
    def last_offset(self) -> int | None:
        """The last record of the dataset after this event, None if there is none."""
        return self.new_data.offset_interval.end if self.new_data else self.prev_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The first event: who the dataset is."""

    dataset_id: DatasetId
    dataset_kind: DatasetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPollingSource:
    """Data are fetched from somewhere."""

    fetch: FetchStep
    prepare: tuple[PrepStep, ...] | None = None
    read: ReadStep
    preprocess: Transform | None = None
    merge: MergeStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransform:
    """Data are derived from other datasets."""

    inputs: tuple[TransformInput, ...]
    transform: Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVocab:
    """The system columns have names of their own."""

    offset_column: str | None = None
    operation_type_column: str | None = None
    system_time_column: str | None = None
    event_time_column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentEmbedded:
    """A text that travels with the metadata."""

    path: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentsEmbedded:
    """Texts that travel with the metadata."""

    items: tuple[AttachmentEmbedded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttachments:
    """Documents, such as a readme, belong to the dataset."""

    attachments: Attachments


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInfo:
    """What the dataset is about."""

    description: str | None = None
    keywords: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLicense:
    """Under which terms the data may be used."""

    short_name: str
    name: str
    spdx_id: str | None = None
    website_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDataSchema:
    """Which columns slices have from here on."""

    raw_arrow_schema: bytes | None = None
    """The legacy form: a bare flatbuffer of Arrow's Schema table."""
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPushSource:
    """Data are handed in, under the name of a source."""

    source_name: str
    read: ReadStep
    preprocess: Transform | None = None
    merge: MergeStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class DisablePushSource:
    """Data are no longer handed in under this name."""

    source_name: str


@dataclass(frozen=True, slots=True)
class DisablePollingSource:
    """Data are no longer fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBlock:
    """An event in its place in the chain."""

    system_time: Timestamp
    prev_block_hash: Multihash | None = None
    """Absent in the first block only."""
    sequence_number: int
    event: MetadataEvent
