"""What is known of the files of an archive: a root dataset that follows their listings.

Its merge strategy is the snapshot of the Open Data Fabric: a listing is the whole state, and only
what differs from the last one becomes records. Files are told by `url`, and are others when their
size, ETag or time of change is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.ingest.listing import FILE_SCHEMA, FileListing
from icestream.ledger.blocks.events import AddPushSource, DatasetKind
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.blocks.sources import MergeStrategySnapshot, ReadStepParquet
from icestream.ledger.data.merging.differences import distinct_rows
from icestream.ledger.data.system_columns import Operation
from icestream.ledger.data_writing import AddedData
from icestream.ledger.dataset import Dataset

type Rows = npt.NDArray[np.int64]

LISTING_SOURCE = "listing"
"""The push source that listings come from."""

_URL = "url"
_IDENTITY = ("size", "etag", "last_modified")
_CHANGED_SCHEMA = pa.schema(
    [*FILE_SCHEMA, *(FILE_SCHEMA.field(name).with_name(f"old_{name}") for name in _IDENTITY)]
)


@dataclass(frozen=True, slots=True, eq=False)
class InventoryChanges:
    """What became of files between two offsets of an inventory; each file is in one table only."""

    added: pa.Table
    """As in a listing."""
    changed: pa.Table
    """As in a listing, and the same columns with `old_` before their names."""
    vanished: pa.Table
    """As in a listing: what they were."""
    new_offset: int | None
    """Of the last record that was considered; None if there is none."""

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.vanished)


def inventory_definition(alias: str) -> DatasetSnapshot:
    """Return the definition of an inventory."""
    merge = MergeStrategySnapshot(primary_key=(_URL,), compare_columns=_IDENTITY)
    source = AddPushSource(source_name=LISTING_SOURCE, read=ReadStepParquet(), merge=merge)
    return DatasetSnapshot(
        name=DatasetAlias.parse(alias), kind=DatasetKind.ROOT, metadata=(source,)
    )


def record_listing(dataset: Dataset, listing: FileListing) -> AddedData:
    """Add what a listing changes to an inventory; nothing if that is nothing.

    Raises:
        ConflictError: Somebody else appended first; nothing of the listing is visible.
    """
    return dataset.add_data(listing.table, source_name=LISTING_SOURCE)


def known_files(dataset: Dataset) -> pa.Table:
    """Return the files that an inventory knows, as in a listing."""
    return changes_since(dataset, None).added


def changes_since(dataset: Dataset, prev_offset: int | None) -> InventoryChanges:
    """Return what became of files since an offset; None is the beginning.

    Several records of one file count as one change, and those that lead back to where they began
    count as none. Only the records since the offset are read.
    """
    first, last = 0 if prev_offset is None else prev_offset + 1, dataset.last_offset
    if last is None or last < first:
        nothing = FILE_SCHEMA.empty_table()
        return InventoryChanges(nothing, _CHANGED_SCHEMA.empty_table(), nothing, last)
    records = dataset.tail(last - first + 1)
    first_rows, last_rows = _ends(records.column(_URL))
    operations = records.column("op").to_numpy()
    # a file that was known begins with what it was: retracted, or corrected from
    was_there = operations[first_rows] != Operation.APPEND
    is_there = operations[last_rows] != Operation.RETRACT
    both = was_there & is_there
    before, after = (_files(records, rows[both]) for rows in (first_rows, last_rows))
    return InventoryChanges(
        added=_files(records, last_rows[is_there & ~was_there]),
        changed=_changed(before, after),
        vanished=_files(records, first_rows[was_there & ~is_there]),
        new_offset=last,
    )


def _ends(urls: pa.ChunkedArray) -> tuple[Rows, Rows]:
    """Return the first and the last row of each URL."""
    encoded = urls.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    first, last = np.empty((2, len(encoded.dictionary)), np.int64)
    rows = np.arange(len(codes))
    first[codes[::-1]] = rows[::-1]
    last[codes] = rows
    return first, last


def _files(records: pa.Table, rows: Rows) -> pa.Table:
    """Return records as a listing has them."""
    table = records.select(FILE_SCHEMA.names).take(pa.array(rows))
    return table.cast(FILE_SCHEMA).sort_by(_URL)


def _changed(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return the files that are not what they were; both tables have the same ones."""
    columns = [*after.columns, *(before.column(name) for name in _IDENTITY)]
    both = pa.table(columns, schema=_CHANGED_SCHEMA)
    flags = [distinct_rows(before.column(name), after.column(name)) for name in _IDENTITY]
    return both.filter(pa.array(np.logical_or.reduce(flags)))
