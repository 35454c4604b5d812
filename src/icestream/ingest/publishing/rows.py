"""The records of an ingest dataset: one per file that a run looked at."""

from enum import StrEnum

import pyarrow as pa

from icestream.storage.column_listing import TIME_TYPE


class FileStatus(StrEnum):
    """What a run did with a file."""

    INGESTED = "ingested"
    UPDATED = "updated"
    """It is another than before, and its references are those of the new one."""
    REMOVED = "removed"
    """It is gone, and so are its references."""
    VANISHED = "vanished"
    """It is gone, and its references are kept."""
    CHANGED = "changed"
    """It is another than before, and its references are kept."""
    SET_ASIDE = "set-aside"
    """It cannot be ingested; the reason is told, and it is tried again."""
    UNDONE = "undone"
    """The run that brought it was taken back."""


ROW_SCHEMA = pa.schema(
    [
        pa.field("event_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("etag", pa.string()),
        pa.field("old_etag", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("last_modified", TIME_TYPE),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("references", pa.int64(), nullable=False),
    ]
)
"""The event time is when the run looked at the file; times are kept in milliseconds."""
