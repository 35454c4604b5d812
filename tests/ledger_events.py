"""Events for tests of the ledger: valid unless a test says otherwise."""

from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.data_types import DataField, DataType, DataTypeInt64, DataTypeString
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import (
    AddPushSource,
    Checkpoint,
    DatasetKind,
    DataSlice,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
)
from icestream.ledger.blocks.hashes import LOGICAL_CODE, Multihash, sha3_256
from icestream.ledger.blocks.sources import FetchStepUrl, MergeStrategyAppend, ReadStepCsv
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.ledger.chain.layout import checkpoint_key, data_key
from icestream.storage.protocol import Storage

SQL = TransformSql(engine="spark", queries=(SqlQueryStep(query="select * from a"),))
SCHEMA = SetDataSchema(
    schema=DataSchema(
        fields=(
            DataField(name="offset", type=DataTypeInt64()),
            DataField(name="city", type=DataTypeString()),
        )
    )
)


def moment(second: int) -> Timestamp:
    """Return a time, the later the greater the number."""
    return Timestamp.from_epoch_ms(1_700_000_000_000 + second * 1000)


def dataset_id(number: int) -> DatasetId:
    return DatasetId(number.to_bytes(32))


def seed(kind: DatasetKind = DatasetKind.ROOT, number: int = 1) -> Seed:
    return Seed(dataset_id=dataset_id(number), dataset_kind=kind)


def content(start: int, end: int) -> bytes:
    """Return the bytes of the file that `data_slice` describes."""
    return f"records {start} to {end}".encode()


def data_slice(start: int, end: int) -> DataSlice:
    data = content(start, end)
    physical = sha3_256(data)
    return DataSlice(
        logical_hash=Multihash(LOGICAL_CODE, physical.digest),
        physical_hash=physical,
        offset_interval=OffsetInterval(start=start, end=end),
        size=len(data),
    )


def checkpoint(text: str) -> Checkpoint:
    return Checkpoint(physical_hash=sha3_256(text.encode()), size=len(text.encode()))


def save_slice(storage: Storage, start: int, end: int) -> DataSlice:
    """Write the file of a slice, and return the slice."""
    made = data_slice(start, end)
    storage.put(data_key(made.physical_hash), content(start, end))
    return made


def save_checkpoint(storage: Storage, text: str) -> Checkpoint:
    """Write the file of a checkpoint, and return the checkpoint."""
    made = checkpoint(text)
    storage.put(checkpoint_key(made.physical_hash), text.encode())
    return made


def transform(*numbers: int) -> SetTransform:
    """Return a transform of the datasets of these numbers."""
    return SetTransform(
        inputs=tuple(
            TransformInput(dataset_ref=str(dataset_id(number)), alias=f"input{number}")
            for number in numbers
        ),
        transform=SQL,
    )


def schema_with(**columns: DataType) -> SetDataSchema:
    fields = tuple(DataField(name=name, type=kind) for name, kind in columns.items())
    return SetDataSchema(schema=DataSchema(fields=fields))


def push_source(name: str = "default", read: ReadStepCsv | None = None) -> AddPushSource:
    return AddPushSource(source_name=name, read=read or ReadStepCsv(), merge=MergeStrategyAppend())


def polling_source(url: str = "https://example.org/a.csv") -> SetPollingSource:
    return SetPollingSource(
        fetch=FetchStepUrl(url=url), read=ReadStepCsv(), merge=MergeStrategyAppend()
    )
