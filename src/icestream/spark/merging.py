"""The five ways in which new rows join a dataset, on DataFrames of any size.

They mean the same as on Arrow tables; the Open Data Fabric specification names them
`MergeStrategy`. A row of the result says what it does: 0 adds a record, 1 retracts one, 2 and 3
correct one from its old values to its new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from icestream.ledger.data.system_columns import (
    Operation,
    SystemColumns,
    require_no_reserved_columns,
)
from icestream.spark.column_names import column, columns_of
from icestream.spark.offsets import with_offsets

_SYSTEM_COLUMNS = SystemColumns()
_ARRIVAL = "__icestream_arrival"
_OLD, _NEW, _RECORDS = "__icestream_old", "__icestream_new", "__icestream_records"
_NAMED_IN_ERRORS = 5


@dataclass(frozen=True, slots=True)
class _Batch:
    """New rows beside the records that are there."""

    rows: DataFrame
    """With event time and order of arrival."""
    previous: DataFrame
    columns: SystemColumns

    @property
    def values(self) -> list[str]:
        """What rows hold: the event time, then the data."""
        own = {*self.columns.names, _ARRIVAL}
        data = [name for name in self.rows.columns if name not in own]
        return [self.columns.event_time, *data]


def merge(
    new: DataFrame,
    previous: DataFrame | None,
    strategy: MergeStrategy,
    *,
    first_offset: int = 0,
    columns: SystemColumns = _SYSTEM_COLUMNS,
    arrival: str | None = None,
) -> DataFrame:
    """Return the records that new rows add to a dataset, numbered in the strategy's order.

    The columns are offset, operation, event time (null where the input has none), then the data.
    Snapshot, changelog and upsert inputs are checked first, in a job of its own: cache `new` if
    it is costly to compute.

    Args:
        new: The rows of the input.
        previous: All records of the dataset; None if there are none. Append and changelog do not
            look at them, and ledger only at the columns of its key.
        strategy: How rows become records.
        first_offset: Of the first record.
        columns: The names of the system columns.
        arrival: A column of `new` that numbers its rows in their order of arrival, and is left out
            of the result. Without it they arrive in the order of Spark's partitions, which is
            that of a table or file, and is not defined after a join or an aggregation.

    Raises:
        InvalidInputError: Columns are missing or reserved, keys of a snapshot repeat, or an
            operation is unknown.
    """
    states_operations = isinstance(
        strategy, MergeStrategyChangelogStream | MergeStrategyUpsertStream
    )
    names = pa.table([pa.nulls(0)] * len(new.columns), names=new.columns)
    require_no_reserved_columns(names, columns, allows_op=states_operations)
    batch = _batch(new, previous, columns, arrival)
    records, order = _merged(batch, strategy)
    numbered = with_offsets(records, order, first_offset=first_offset, columns=columns)
    return numbered.select(*columns_of([columns.offset, columns.op, *batch.values]))


def latest_state(
    records: DataFrame, primary_key: Sequence[str], columns: SystemColumns = _SYSTEM_COLUMNS
) -> DataFrame:
    """Return the last record of each key, without keys that were retracted."""
    last = _last_of_each(records, primary_key, columns.offset)
    return last.where(column(columns.op) != int(Operation.RETRACT))


def _batch(
    new: DataFrame, previous: DataFrame | None, columns: SystemColumns, arrival: str | None
) -> _Batch:
    number = F.monotonically_increasing_id() if arrival is None else column(arrival)
    rows = new.withColumn(_ARRIVAL, number)
    if arrival is not None:
        rows = rows.drop(column(arrival))
    if columns.event_time not in rows.columns:
        kind = "timestamp" if previous is None else previous.schema[columns.event_time].dataType
        rows = rows.withColumn(columns.event_time, F.lit(None).cast(kind))
    if previous is None:
        nothing = F.lit(None).cast("long").alias(columns.offset)
        operation = _operation(Operation.APPEND, columns)
        unstated = rows.drop(column(columns.op), column(_ARRIVAL))
        previous = unstated.select(nothing, operation, "*").limit(0)
    return _Batch(rows, previous, columns)


def _merged(batch: _Batch, strategy: MergeStrategy) -> tuple[DataFrame, list[Column]]:
    """Return the records without offsets, and what they are sorted by."""
    columns = batch.columns
    by_time = [column(columns.event_time), column(_ARRIVAL)]
    match strategy:
        case MergeStrategyAppend():
            return _added(batch.rows, columns), by_time
        case MergeStrategyLedger(primary_key=key):
            _require_columns(batch, key, "key")
            return _added(_with_unseen_key(batch, key), columns), by_time
        case MergeStrategySnapshot(primary_key=key):
            _require_columns(batch, key, "key")
            _require_distinct_keys(batch, key)
            return _snapshot(batch, strategy), columns_of([*key, columns.op])
        case MergeStrategyChangelogStream(primary_key=key):
            _require_columns(batch, [columns.op], "operation")
            _require_columns(batch, key, "key")
            _require_known_operations(batch)
            stated = batch.rows.withColumn(columns.op, column(columns.op).cast("int"))
            return stated, columns_of([*key, columns.op, _ARRIVAL])
        case MergeStrategyUpsertStream(primary_key=key):
            _require_columns(batch, key, "key")
            return _upserts(batch, key), columns_of([*key, columns.op])


# -- strategies -----------------------------------------------------------------------------------


def _added(rows: DataFrame, columns: SystemColumns) -> DataFrame:
    return rows.select("*", _operation(Operation.APPEND, columns))


def _with_unseen_key(batch: _Batch, key: Sequence[str]) -> DataFrame:
    # a plain equality: a key with a null in it is never seen
    seen = batch.previous.select(*columns_of(key)).distinct()
    return batch.rows.join(seen, list(key), "left_anti")


def _snapshot(batch: _Batch, strategy: MergeStrategySnapshot) -> DataFrame:
    key = strategy.primary_key
    compared = strategy.compare_columns
    if compared is not None:
        _require_columns(batch, compared, "compared")
    else:
        compared = tuple(name for name in batch.values if name not in key)
    pairs = _beside_old(batch.rows, batch, key, "full_outer")
    has_old, has_new = column(_OLD).isNotNull(), column(_NEW).isNotNull()
    records = (
        F.when(~has_old, F.array(_record(Operation.APPEND, _NEW, batch)))
        .when(~has_new, F.array(_record(Operation.RETRACT, _OLD, batch)))
        .when(_differs(compared, batch), _correction(batch))
    )
    return _exploded(pairs, records)


def _upserts(batch: _Batch, key: Sequence[str]) -> DataFrame:
    operation = batch.columns.op
    rows = batch.rows
    if operation in rows.columns:
        _require_known_operations(batch)
    else:
        rows = _added(rows, batch.columns)
    last = _last_of_each(rows, key, _ARRIVAL)
    pairs = _beside_old(last, batch, key, "left_outer")
    has_old = column(_OLD).isNotNull()
    is_retraction = column(operation) == int(Operation.RETRACT)
    compared = [name for name in batch.values if name not in key]
    records = (
        F.when(is_retraction & has_old, F.array(_record(Operation.RETRACT, _OLD, batch)))
        .when(is_retraction, None)
        .when(~has_old, F.array(_record(Operation.APPEND, _NEW, batch)))
        .when(_differs(compared, batch), _correction(batch))
    )
    return _exploded(pairs, records)


# -- old values beside new ones -------------------------------------------------------------------


def _beside_old(rows: DataFrame, batch: _Batch, key: Sequence[str], how: str) -> DataFrame:
    """Join rows with the state of their keys; a null in a key equals a null."""
    values = columns_of(batch.values)
    state = latest_state(batch.previous, key, batch.columns)
    old = state.select(F.struct(*values).alias(_OLD))
    operation = [column(batch.columns.op)] if batch.columns.op in rows.columns else []
    new = rows.select(*operation, F.struct(*values).alias(_NEW))
    same = (column(_OLD, name).eqNullSafe(column(_NEW, name)) for name in key)
    return new.join(old, reduce(and_, same), how)


def _differs(compared: Sequence[str], batch: _Batch) -> Column:
    return reduce(or_, (_differs_in(name, batch) for name in compared), F.lit(False))  # noqa: FBT003


def _differs_in(name: str, batch: _Batch) -> Column:
    differs = ~column(_OLD, name).eqNullSafe(column(_NEW, name))
    if name != batch.columns.event_time:
        return differs
    # the writer fills in event times that the input leaves out: not a change
    return differs & column(_NEW, name).isNotNull()


def _correction(batch: _Batch) -> Column:
    return F.array(
        _record(Operation.CORRECT_FROM, _OLD, batch), _record(Operation.CORRECT_TO, _NEW, batch)
    )


def _record(operation: Operation, side: str, batch: _Batch) -> Column:
    values = (column(side, name).alias(name) for name in batch.values)
    return F.struct(_operation(operation, batch.columns), *values)


def _exploded(pairs: DataFrame, records: Column) -> DataFrame:
    return pairs.select(F.explode(records).alias(_RECORDS)).select(f"{_RECORDS}.*")


def _operation(operation: Operation, columns: SystemColumns) -> Column:
    return F.lit(int(operation)).cast("int").alias(columns.op)


def _last_of_each(rows: DataFrame, key: Sequence[str], order: str) -> DataFrame:
    newest_first = Window.partitionBy(*columns_of(key)).orderBy(column(order).desc())
    rank = "__icestream_rank"
    ranked = rows.withColumn(rank, F.row_number().over(newest_first))
    return ranked.where(column(rank) == 1).drop(rank)


# -- checks ---------------------------------------------------------------------------------------


def _require_columns(batch: _Batch, names: Sequence[str], role: str) -> None:
    missing = [name for name in names if name not in batch.rows.columns]
    if missing:
        raise InvalidInputError(
            f"the input has no {role} column {', '.join(missing)}; it has "
            f"{', '.join(name for name in batch.rows.columns if name != _ARRIVAL)}"
        )


def _require_distinct_keys(batch: _Batch, key: Sequence[str]) -> None:
    counted = batch.rows.groupBy(*columns_of(key)).agg(F.count("*").alias(_RECORDS))
    repeated = counted.where(column(_RECORDS) > 1).drop(_RECORDS).limit(_NAMED_IN_ERRORS).collect()
    if repeated:
        raise InvalidInputError(
            f"a snapshot has each key once; the input has several rows of {repeated}: "
            "leave all but one of them out, or make the key longer"
        )


def _require_known_operations(batch: _Batch) -> None:
    operation = column(batch.columns.op)
    known = operation.isin([int(one) for one in Operation])
    unknown = batch.rows.where(operation.isNull() | ~known).select(operation).distinct()
    found = [row[0] for row in unknown.limit(_NAMED_IN_ERRORS).collect()]
    if found:
        listed = ", ".join("null" if one is None else str(one) for one in found)
        raise InvalidInputError(
            f"column {batch.columns.op!r} has unknown operations: {listed}; there are "
            + ", ".join(f"{int(one)} ({one.name.lower()})" for one in Operation)
        )
