"""Records of many slices as one Arrow dataset, read from their storage when they are needed."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import DataSlice
from icestream.ledger.data.arrow_schemas import to_arrow_schema
from icestream.ledger.data.storage_files import open_file_system
from icestream.ledger.data.system_columns import SystemColumns
from icestream.storage.protocol import Storage

_DATA_FOLDER = "data"


def open_slices(
    storage: Storage,
    slices: Sequence[DataSlice],
    schema: DataSchema,
    *,
    columns: SystemColumns | None = None,
) -> ds.Dataset:
    """Return the records of slices as one dataset; no file is touched yet.

    Filters on the offset leave whole files out. Columns that a file has not, because they were
    added to the schema later, are null.

    Args:
        storage: At the root of the dataset.
        slices: In offset order.
        schema: In force now.
        columns: The names of the system columns.
    """
    columns = columns or SystemColumns()
    arrow_schema = _nullable(to_arrow_schema(schema))
    sizes = {_path(data_slice): data_slice.size for data_slice in slices}
    filesystem = open_file_system(storage, sizes)
    fragments = [_fragment(data_slice, filesystem, columns) for data_slice in slices]
    return ds.FileSystemDataset(fragments, arrow_schema, ds.ParquetFileFormat(), filesystem)


def _fragment(
    data_slice: DataSlice, filesystem: FileSystem, columns: SystemColumns
) -> ds.ParquetFileFragment:
    interval = data_slice.offset_interval
    offset = pc.field(columns.offset)
    return ds.ParquetFileFormat().make_fragment(
        _path(data_slice),
        filesystem,
        (offset >= interval.start) & (offset <= interval.end),
        file_size=data_slice.size,
    )


def _path(data_slice: DataSlice) -> str:
    return f"{_DATA_FOLDER}/{data_slice.physical_hash}"


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the schema with every column nullable, which is how datasets fill missing ones."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def read_records(dataset: ds.Dataset, schema: DataSchema) -> pa.Table:
    """Return all records of a dataset, in offset order, with the nullability of their schema."""
    return dataset.to_table().cast(to_arrow_schema(schema))


def tail(
    dataset: ds.Dataset,
    count: int,
    *,
    last_offset: int | None,
    columns: SystemColumns | None = None,
) -> pa.Table:
    """Return the last records of a dataset; only the files that hold them are read.

    Args:
        dataset: The records.
        count: How many are wanted; there may be fewer.
        last_offset: Of the dataset, None if it has no records.
        columns: The names of the system columns.

    Raises:
        InvalidInputError: The count is negative.
    """
    if count < 0:
        raise InvalidInputError(f"a tail of {count} records is none; ask for 0 or more")
    columns = columns or SystemColumns()
    end = -1 if last_offset is None else last_offset
    return dataset.to_table(filter=pc.field(columns.offset) > end - count)
