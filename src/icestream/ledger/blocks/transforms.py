"""What a derivative dataset is made from, and by which queries."""

from dataclasses import dataclass

type Transform = TransformSql


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQueryStep:
    """One query; its result is a view of the name `alias`, or the output if it has none."""

    alias: str | None = None
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalTable:
    """A stream that an engine looks up by key, as it was at the time of each row."""

    name: str
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSql:
    """Queries in the SQL dialect of an engine."""

    engine: str
    version: str | None = None
    query: str | None = None
    """Short for a single step; blocks in a chain have `queries` instead."""
    queries: tuple[SqlQueryStep, ...] | None = None
    temporal_tables: tuple[TemporalTable, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformInput:
    """A dataset to read, and the name that queries know it by."""

    dataset_ref: str
    """Blocks in a chain have a dataset id here; manifests may have a name."""
    alias: str | None = None
