"""What a run tells the ledger: one row per file that it looked at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from icestream.ingest.file_columns import UNKNOWN_TIME, FileColumns
from icestream.ingest.publishing.rows import ROW_SCHEMA, FileStatus


@dataclass(frozen=True, slots=True)
class FileRow:
    """What became of one file."""

    url: str
    status: FileStatus
    reason: str | None = None


def rows_of(
    rows: Iterable[FileRow], before: FileColumns, after: FileColumns, moment: datetime | None = None
) -> pa.Table:
    """Return rows for the ledger, in order of URLs.

    Args:
        rows: What became of files.
        before: What was known of them.
        after: What is known of them now.
        moment: When it was; now, if left out.
    """
    found = sorted(rows, key=lambda row: row.url)
    urls = [row.url for row in found]
    old, new = _found(before, urls), _found(after, urls)
    millis = int((moment or datetime.now(UTC)).timestamp() * 1000)
    return pa.table(
        {
            "event_time": pa.array(np.full(len(found), millis), pa.timestamp("ms", "UTC")),
            "url": pa.array(urls, pa.string()),
            "etag": _texts(after, new),
            "old_etag": _texts(before, old),
            "size": _numbers(after.sizes, new),
            "last_modified": _times(after, new),
            "status": pa.array([row.status.value for row in found], pa.string()),
            "reason": pa.array([row.reason for row in found], pa.string()),
            "references": _numbers(after.num_references, new).fill_null(0),
        }
    ).cast(ROW_SCHEMA)


def _found(files: FileColumns, urls: Sequence[str]) -> pa.Array:
    """Return the row of each URL, null where there is none."""
    rows: Mapping[str, int] = {url: row for row, url in enumerate(files.urls)}
    return pa.array([rows.get(url) for url in urls], pa.int64())


def _texts(files: FileColumns, rows: pa.Array) -> pa.Array:
    return files.etags.take(rows).cast(pa.string())


def _numbers(values: Any, rows: pa.Array) -> pa.Array:
    return pa.array(values, pa.int64()).take(rows)


def _times(files: FileColumns, rows: pa.Array) -> pa.Array:
    times = files.last_modified
    known = pa.array(times, pa.int64(), mask=times == UNKNOWN_TIME).take(rows)
    return known.cast(pa.timestamp("us", "UTC")).cast(
        ROW_SCHEMA.field("last_modified").type, safe=False
    )
