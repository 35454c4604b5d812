"""A total order of records, so that offsets do not depend on how Spark split its work."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from icestream.ledger.data.system_columns import SystemColumns


def in_total_order(rows: pa.Table, columns: SystemColumns) -> pa.Table:
    """Return rows by event time, then by operation, then by the other columns from left to right.

    Rows that this does not tell apart are the same.

    Args:
        rows: In any order.
        columns: The names of the system columns.
    """
    if len(rows) < 2:  # noqa: PLR2004  there is nothing to order
        return rows
    first = [name for name in (columns.event_time, columns.op) if name in rows.column_names]
    names = [*first, *(name for name in rows.column_names if name not in first)]
    keys = [key for name in names for key in _keys(rows.column(name).combine_chunks())]
    table = pa.table(keys, names=[str(number) for number in range(len(keys))])
    order = [(name, "ascending") for name in table.column_names]
    return rows.take(pc.sort_indices(table, sort_keys=order))


def _keys(values: pa.Array) -> Iterator[pa.Array]:
    """Yield columns that order values as they order themselves; Arrow cannot order nested ones."""
    kind = values.type
    if pa.types.is_struct(kind):
        yield values.is_valid()
        for part in values.flatten():
            yield from _keys(part)
    elif pa.types.is_nested(kind):
        yield pa.array([repr(value) for value in values.to_pylist()], pa.string())
    elif pa.types.is_null(kind):
        return
    else:
        yield values
