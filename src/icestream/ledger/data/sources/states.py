"""How far a source was read: kept in every data event, so that nothing is fetched twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from icestream.ledger.blocks.events import AddData, SourceState
from icestream.ledger.blocks.times import Timestamp

ETAG = "odf/etag"
LAST_MODIFIED = "odf/last-modified"
_POLLING_SOURCE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file of a source."""

    data: bytes
    name: str
    """Where it came from, for errors."""
    source_state: SourceState | None = None
    """What tells whether the source has changed; None if it gives nothing to tell by."""
    event_time: Timestamp | None = None
    """For rows that have none."""
    has_more: bool = False
    """Whether the source has another file already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """What fetching depends on beside its step."""

    previous: SourceState | None = None
    """How far the source was read before."""
    system_time: Timestamp
    folder: Path
    """That relative paths start from."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """For the expressions in the texts of a source."""

    def previous_value(self, kind: str) -> str | None:
        """Return the previous state if it is of a kind; kinds that are not known are ignored."""
        is_kind = self.previous is not None and self.previous.kind == kind
        return self.previous.value if self.previous is not None and is_kind else None


def etag_state(value: str) -> SourceState:
    """Return the state of a source that names its versions."""
    return SourceState(source_name=_POLLING_SOURCE, kind=ETAG, value=value)


def last_modified_state(moment: Timestamp) -> SourceState:
    """Return the state of a source that tells when it was modified."""
    return SourceState(source_name=_POLLING_SOURCE, kind=LAST_MODIFIED, value=str(moment))


def is_uncacheable(last: AddData | None) -> bool:
    """Tell whether a source was read before, and gave nothing to tell whether it has changed.

    Fetching it again would ingest the same data again, so it is done only on demand.
    """
    # by the offset, not the slice: a watermark that was set since does not make it known
    return last is not None and last.last_offset is not None and last.new_source_state is None
