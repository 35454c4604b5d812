"""Datasets that are derived from others, for tests of transforms."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from icestream.ledger import (
    AddedData,
    Dataset,
    DatasetAlias,
    DatasetKind,
    DatasetSnapshot,
    ExecuteTransform,
    SetTransform,
    Workspace,
)
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.storage import local_filesystem_storage

TIME = pa.timestamp("ms", "UTC")
START = datetime(2024, 1, 1, tzinfo=UTC)


def workspace_in(folder: Path) -> Workspace:
    return Workspace(local_filesystem_storage(str(folder / "workspace")))


def minute(number: float) -> datetime:
    """Return a time, so many minutes after the first."""
    return START + timedelta(minutes=number)


def readings(minutes: Sequence[float], sensor: str = "a") -> pa.Table:
    """Return one reading for each of these minutes."""
    return pa.table(
        {
            "event_time": pa.array([minute(number) for number in minutes], TIME),
            "sensor": pa.array([sensor] * len(minutes)),
            "value": pa.array([int(number) for number in minutes], pa.int64()),
        }
    )


def set_transform(
    *queries: str | tuple[str, str],
    inputs: Sequence[tuple[str, str]] = (("readings", "readings"),),
    engine: str = "spark",
    version: str | None = None,
) -> SetTransform:
    """Return a transform; a query with an alias is a pair, inputs are names and aliases."""
    steps = [
        SqlQueryStep(query=query)
        if isinstance(query, str)
        else SqlQueryStep(alias=query[0], query=query[1])
        for query in queries
    ]
    return SetTransform(
        inputs=tuple(TransformInput(dataset_ref=name, alias=alias) for name, alias in inputs),
        transform=TransformSql(engine=engine, version=version, queries=tuple(steps)),
    )


def derive(workspace: Workspace, name: str, transform: SetTransform) -> Dataset:
    """Create a derivative dataset."""
    return workspace.create(
        DatasetSnapshot(
            name=DatasetAlias.parse(name), kind=DatasetKind.DERIVATIVE, metadata=(transform,)
        )
    )


def added(result: object) -> AddedData:
    assert isinstance(result, AddedData), result
    return result


def last_event(dataset: Dataset) -> ExecuteTransform:
    event = dataset.state.data_event
    assert isinstance(event, ExecuteTransform)
    return event


def rows_of(dataset: Dataset, *columns: str) -> list[tuple[object, ...]]:
    """Return columns of all records, row by row."""
    table = Dataset.open(dataset.storage).to_arrow().select(list(columns))
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
