"""Merging: what an input adds to the records that a dataset has.

A result has the operation, the event time and the data columns; rows are in the order in which
they get their offsets. Append and ledger sort by event time, the others by primary key and then by
operation, so that a correction stands directly behind what it corrects. Nulls come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from icestream.ledger.data.merging.differences import distinct_rows
from icestream.ledger.data.merging.keys import (
    Flags,
    Integers,
    KeyCodes,
    key_codes,
    last_rows,
    require_columns,
    require_unique_keys,
    valid_rows,
)
from icestream.ledger.data.system_columns import (
    OPERATION_TYPE,
    TIME_TYPE,
    Operation,
    SystemColumns,
    with_event_time,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """One input and what it is merged into; both tables have the same data columns."""

    new: pa.Table
    """The input without its operations."""
    operations: Integers
    """Of the rows of the input."""
    old: pa.Table
    """All records in the order of their offsets."""
    columns: SystemColumns

    @property
    def old_operations(self) -> Integers:
        """Of the records."""
        return _integers(self.old.column(self.columns.op))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """For each key the row that is in force and the one to come, -1 where there is none."""

    old: Integers
    new: Integers
    is_gone: Flags
    """Keys whose row in force is to be retracted."""


def takes_operations(strategy: MergeStrategy) -> bool:
    """Tell whether inputs of a strategy may say what their rows do."""
    return isinstance(strategy, MergeStrategyChangelogStream | MergeStrategyUpsertStream)


def merged(
    strategy: MergeStrategy,
    table: pa.Table,
    previous: pa.Table | ds.Dataset | None = None,
    *,
    columns: SystemColumns | None = None,
) -> pa.Table:
    """Return the records that an input adds to a dataset.

    Args:
        strategy: How rows are told to be new, changed or gone.
        table: The input, in arrival order.
        previous: All records of the dataset, of which only the columns that matter are read;
            None if there are none.
        columns: The names of the system columns.

    Returns:
        Records with operation and event time, without offset and system time; null event times
        are not filled yet.

    Raises:
        InvalidInputError: The input lacks columns, has columns of another type than the dataset,
            unknown operations, or two rows of one key where only one is allowed.

    Examples:
        >>> seen = pa.table({"offset": [0], "op": [0], "event_time": [None], "city": ["kyiv"]})
        >>> strategy = MergeStrategyLedger(primary_key=("city",))
        >>> merged(strategy, pa.table({"city": ["kyiv", "odesa"]}), seen)["city"].to_pylist()
        ['odesa']
    """
    columns = columns or SystemColumns()
    _require_key(strategy, table, columns)
    merge = _prepared(strategy, table, previous, columns)
    match strategy:
        case MergeStrategyAppend():
            return _by_event_time(_appended(merge), columns)
        case MergeStrategyLedger(primary_key=key):
            return _by_event_time(_ledger(merge, key), columns)
        case MergeStrategySnapshot(primary_key=key):
            return _by_key(_snapshot(merge, strategy), key, columns)
        case MergeStrategyChangelogStream(primary_key=key):
            return _by_key(_with_operations(merge.new, merge.operations, columns), key, columns)
        case MergeStrategyUpsertStream(primary_key=key):
            return _by_key(_upserts(merge, key), key, columns)
        case _:
            assert_never(strategy)


# preparing


def _require_key(strategy: MergeStrategy, table: pa.Table, columns: SystemColumns) -> None:
    if not isinstance(strategy, MergeStrategyAppend):
        require_columns(table, strategy.primary_key, "primary key")
    if isinstance(strategy, MergeStrategyChangelogStream):
        require_columns(table, [columns.op], "operation column")
    if isinstance(strategy, MergeStrategySnapshot) and strategy.compare_columns:
        require_columns(table, strategy.compare_columns, "compared columns")


def _prepared(
    strategy: MergeStrategy,
    table: pa.Table,
    previous: pa.Table | ds.Dataset | None,
    columns: SystemColumns,
) -> _Merge:
    operations = np.zeros(len(table), np.int64)
    if columns.op in table.column_names:
        operations = _known_operations(table.column(columns.op))
        table = table.drop_columns([columns.op])
    new = with_event_time(table, columns, _event_time_type(previous, columns))
    new = new.select([columns.event_time, *_without(new.column_names, columns.event_time)])
    old = _ordered(previous, new.select(_looked_up(strategy, new)), columns)
    return _Merge(new=new, operations=operations, old=old, columns=columns)


def _looked_up(strategy: MergeStrategy, new: pa.Table) -> list[str]:
    """Return the columns of records that a strategy looks at."""
    match strategy:
        case MergeStrategyAppend() | MergeStrategyChangelogStream():
            return []
        case MergeStrategyLedger(primary_key=key):
            return list(key)
        case _:
            return list(new.column_names)


def _event_time_type(previous: pa.Table | ds.Dataset | None, columns: SystemColumns) -> pa.DataType:
    if previous is None or columns.event_time not in previous.schema.names:
        return TIME_TYPE
    return previous.schema.field(columns.event_time).type


def _known_operations(values: pa.ChunkedArray) -> Integers:
    operations = _integers(values)
    unknown = operations[(operations < min(Operation)) | (operations > max(Operation))]
    if len(unknown):
        raise InvalidInputError(
            f"{unknown[0]} is no operation; the column must hold 0 (append), 1 (retract), "
            "2 (correct from) or 3 (correct to)"
        )
    return operations


def _ordered(
    previous: pa.Table | ds.Dataset | None, wanted: pa.Table, columns: SystemColumns
) -> pa.Table:
    """Return the records in offset order: their operations and the columns of an input."""
    fields = [pa.field(columns.op, OPERATION_TYPE), *wanted.schema]
    if previous is None or not wanted.column_names:
        return pa.schema(fields).empty_table()
    _require_same_types(previous.schema, wanted.schema)
    names = [columns.offset, columns.op, *wanted.column_names]
    is_table = isinstance(previous, pa.Table)
    records = previous.select(names) if is_table else previous.to_table(columns=names)
    offsets = records.column(columns.offset)
    if not bool(np.all(np.diff(_integers(offsets)) > 0)):
        records = records.take(pc.sort_indices(offsets))
    return records.drop_columns([columns.offset])


def _require_same_types(old: pa.Schema, new: pa.Schema) -> None:
    for field in new:
        if field.name not in old.names:
            raise InvalidInputError(
                f"the dataset has no column {field.name!r}; its columns are {', '.join(old.names)}"
            )
        found = old.field(field.name).type
        if found != field.type:
            raise InvalidInputError(
                f"column {field.name!r} has type {field.type} in the input, and {found} in the "
                "dataset; cast it"
            )


def _integers(values: pa.ChunkedArray) -> Integers:
    return np.asarray(pc.fill_null(values, 0).to_numpy(), np.int64)


def _without(names: Sequence[str], *left_out: str) -> list[str]:
    return [name for name in names if name not in left_out]


# strategies


def _appended(merge: _Merge) -> pa.Table:
    return _with_operations(merge.new, Operation.APPEND, merge.columns)


def _ledger(merge: _Merge, key: Sequence[str]) -> pa.Table:
    codes = key_codes(merge.old, merge.new, key)
    is_known = np.zeros(codes.count, np.bool_)
    is_known[codes.old] = True
    # a null is not equal to any other: such keys are new every time
    is_seen = is_known[codes.new] & valid_rows(merge.new, key)
    rows = merge.new.filter(pa.array(~is_seen))
    return _with_operations(rows, Operation.APPEND, merge.columns)


def _snapshot(merge: _Merge, strategy: MergeStrategySnapshot) -> pa.Table:
    key = strategy.primary_key
    codes = key_codes(merge.old, merge.new, key)
    require_unique_keys(merge.new, codes, key)
    old_rows = _state(merge, codes)
    new_rows = last_rows(codes.new, codes.count)
    compared = strategy.compare_columns or _without(merge.new.column_names, *key)
    is_gone = (old_rows >= 0) & (new_rows < 0)
    return _changes(merge, _Pairs(old=old_rows, new=new_rows, is_gone=is_gone), compared)


def _upserts(merge: _Merge, key: Sequence[str]) -> pa.Table:
    codes = key_codes(merge.old, merge.new, key)
    old_rows = _state(merge, codes)
    new_rows = last_rows(codes.new, codes.count)
    is_retracted = np.zeros(codes.count, np.bool_)
    is_given = new_rows >= 0
    is_retracted[is_given] = merge.operations[new_rows[is_given]] == Operation.RETRACT
    pairs = _Pairs(
        old=old_rows,
        new=np.where(is_retracted, -1, new_rows),
        is_gone=is_retracted & (old_rows >= 0),
    )
    return _changes(merge, pairs, _without(merge.new.column_names, *key))


def _state(merge: _Merge, codes: KeyCodes) -> Integers:
    """Return the record that is in force for each key, -1 where there is none."""
    rows = last_rows(codes.old, codes.count)
    if not len(merge.old):
        return rows
    return np.where(merge.old_operations[rows] == Operation.RETRACT, -1, rows)


def _changes(merge: _Merge, pairs: _Pairs, compared: Sequence[str]) -> pa.Table:
    """Return additions, retractions and corrections."""
    is_added = (pairs.old < 0) & (pairs.new >= 0)
    both = np.flatnonzero((pairs.old >= 0) & (pairs.new >= 0))
    changed = both[_is_changed(merge, pairs.old[both], pairs.new[both], compared)]
    parts = [
        (merge.new, pairs.new[is_added], Operation.APPEND),
        (merge.old, pairs.old[pairs.is_gone], Operation.RETRACT),
        (merge.old, pairs.old[changed], Operation.CORRECT_FROM),
        (merge.new, pairs.new[changed], Operation.CORRECT_TO),
    ]
    names = merge.new.column_names
    return pa.concat_tables(
        [
            _with_operations(table.select(names).take(pa.array(rows)), operation, merge.columns)
            for table, rows, operation in parts
        ],
        promote_options="permissive",
    )


def _is_changed(
    merge: _Merge, old_rows: Integers, new_rows: Integers, compared: Sequence[str]
) -> Flags:
    changed = np.zeros(len(old_rows), np.bool_)
    for name in compared:
        old = merge.old.column(name).take(pa.array(old_rows))
        new = merge.new.column(name).take(pa.array(new_rows))
        differs = distinct_rows(old, new)
        if name == merge.columns.event_time:
            differs &= pc.is_valid(new).to_numpy()
        changed |= differs
    return changed


# results


def _with_operations(
    table: pa.Table, operations: Operation | Integers, columns: SystemColumns
) -> pa.Table:
    values = pa.array(np.broadcast_to(operations, len(table)).astype(np.int32))
    field = pa.field(columns.op, OPERATION_TYPE, nullable=False)
    return table.add_column(0, field, values)


def _by_event_time(table: pa.Table, columns: SystemColumns) -> pa.Table:
    return _sorted(table, [columns.event_time])


def _by_key(table: pa.Table, key: Sequence[str], columns: SystemColumns) -> pa.Table:
    return _sorted(table, [*key, columns.op])


def _sorted(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sort ascending, nulls first; ties keep their order."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for position, name in enumerate(names):
        column = table.column(name)
        if column.null_count:
            columns[f"{position} is valid"] = pc.is_valid(column).cast(pa.int8())
        columns[f"{position}"] = column
    columns["row"] = pa.array(np.arange(len(table)))
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    return table.take(order)
