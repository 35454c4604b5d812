"""Columns by their exact names, which may hold dots, spaces and quotes."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it


def column(*path: str) -> Column:
    """Return the column of this name; further names are fields of a struct inside of it."""
    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in path))


def columns_of(names: Iterable[str]) -> list[Column]:
    """Return the columns of these names."""
    return [column(name) for name in names]
