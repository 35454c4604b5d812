"""Many slices as one dataset."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from icestream.errors import InvalidInputError, NotFoundError, ReadOnlyError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import DataSlice
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.arrow_schemas import from_arrow_schema
from icestream.ledger.data.reading import open_slices, read_records, tail
from icestream.ledger.data.slices import encode_slice
from icestream.ledger.data.storage_files import StorageFiles
from icestream.ledger.data.system_columns import SystemColumns, with_system_columns
from icestream.storage.factories import in_memory_storage
from icestream.storage.protocol import Storage

_TIME = Timestamp.parse("2024-05-06T07:08:09Z")


def _records(first_offset: int, **data: pa.Array) -> pa.Table:
    table = pa.table(data)
    count = len(table)
    table = table.append_column("op", pa.array([0] * count, pa.int32()))
    table = table.append_column("event_time", pa.array([0] * count, pa.timestamp("ms", "UTC")))
    return with_system_columns(table, SystemColumns(), first_offset=first_offset, system_time=_TIME)


def _stored(storage: Storage, table: pa.Table) -> DataSlice:
    encoded = encode_slice(table)
    storage.put(f"data/{encoded.object_name}", encoded.data)
    return encoded.facts


@pytest.fixture
def storage() -> Storage:
    return in_memory_storage()


@pytest.fixture
def slices(storage: Storage) -> list[DataSlice]:
    texts = (["a", "b", "c"], ["d"], ["e", "f"])
    starts = (0, 3, 4)
    return [
        _stored(storage, _records(start, city=pa.array(text)))
        for start, text in zip(starts, texts, strict=True)
    ]


def _schema(**data: pa.Array) -> DataSchema:
    return from_arrow_schema(_records(0, **data).schema)


_SCHEMA = _schema(city=pa.array(["a"]))


def test_records_come_in_offset_order(storage, slices):
    table = read_records(open_slices(storage, slices, _SCHEMA), _SCHEMA)

    assert table.column("offset").to_pylist() == [0, 1, 2, 3, 4, 5]
    assert table.column("city").to_pylist() == list("abcdef")
    assert not table.schema.field("offset").nullable


def test_columns_that_were_added_later_are_null_before(storage, slices):
    later = _stored(storage, _records(6, city=pa.array(["g"]), mayor=pa.array(["m"])))
    schema = _schema(city=pa.array(["a"]), mayor=pa.array(["m"]))

    table = read_records(open_slices(storage, [*slices, later], schema), schema)

    assert table.column("mayor").to_pylist() == [None] * 6 + ["m"]


def test_a_filter_on_offsets_reads_only_the_files_that_can_match(storage, slices):
    storage.delete_many([f"data/{slices[0].physical_hash}"])

    table = open_slices(storage, slices, _SCHEMA).to_table(filter=pc.field("offset") >= 4)

    assert table.column("city").to_pylist() == ["e", "f"]


def test_a_missing_file_is_an_error_that_names_it(storage, slices):
    storage.delete_many([f"data/{slices[1].physical_hash}"])

    with pytest.raises(NotFoundError, match=str(slices[1].physical_hash)):
        open_slices(storage, slices, _SCHEMA).to_table()


@pytest.mark.parametrize(("count", "texts"), [(0, ""), (1, "f"), (3, "def"), (9, "abcdef")])
def test_the_tail_has_the_last_records(storage, slices, count, texts):
    dataset = open_slices(storage, slices, _SCHEMA)

    assert tail(dataset, count, last_offset=5).column("city").to_pylist() == list(texts)


def test_the_tail_of_nothing_is_empty(storage):
    assert len(tail(open_slices(storage, [], _SCHEMA), 5, last_offset=None)) == 0


def test_a_negative_tail_is_refused(storage, slices):
    with pytest.raises(InvalidInputError, match="-1 records"):
        tail(open_slices(storage, slices, _SCHEMA), -1, last_offset=5)


def test_a_storage_is_a_read_only_file_system(storage, slices):
    files = PyFileSystem(StorageFiles(storage))
    path = f"data/{slices[0].physical_hash}"

    assert files.get_file_info(path).size == slices[0].size
    assert files.get_file_info("data/none").type is FileType.NotFound
    assert {info.path for info in files.get_file_info(FileSelector("data"))} == {
        f"data/{data_slice.physical_hash}" for data_slice in slices
    }
    with files.open_input_stream(path) as stream:
        assert stream.read() == storage.get(path)
    with pytest.raises(ReadOnlyError):
        files.delete_file(path)
