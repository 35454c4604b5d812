"""Offsets of records: numbers without gaps, along a total order."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it

from icestream.ledger.data.system_columns import SystemColumns

_SYSTEM_COLUMNS = SystemColumns()


def with_offsets(
    rows: DataFrame,
    order: Sequence[Column],
    *,
    first_offset: int = 0,
    columns: SystemColumns = _SYSTEM_COLUMNS,
) -> DataFrame:
    """Return rows with their offsets in the first column.

    All rows come together in one partition, because a slice is one file.

    Args:
        rows: Without offsets.
        order: What rows are sorted by. Rows that it does not tell apart are numbered in any
            order, so it must be total where results have to be repeatable.
        first_offset: Of the first row.
        columns: The names of the system columns.
    """
    number = F.row_number().over(Window.orderBy(*order)).cast("long")
    offset = (number + F.lit(first_offset - 1)).alias(columns.offset)
    return rows.select(offset, "*")
