"""Files that match a pattern, one after another."""

import glob
import re
from datetime import UTC, datetime
from pathlib import Path

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks.sources import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStepFilesGlob,
    SourceOrdering,
)
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.sources.expressions import filled
from icestream.ledger.data.sources.states import ETAG, FetchContext, Fetched, etag_state

_FILE_SCHEME = "file://"
_DAY_FORMAT = "%Y-%m-%d"


def fetch_next_file(step: FetchStepFilesGlob, context: FetchContext) -> Fetched | None:
    """Return the first file behind the last one that was fetched, None if there is none.

    The state of the source is the name of the last file: its path below the folder that the
    pattern starts in. Files that appear before it in the order are never seen.

    Raises:
        SourceError: A file cannot be read, or its path has no event time.
        InvalidInputError: The files cannot be ordered as the step wants it.
    """
    if step.order is SourceOrdering.BY_EVENT_TIME and not isinstance(
        step.event_time, EventTimeSourceFromPath
    ):
        raise InvalidInputError("files are ordered by event time only with the source FromPath")
    last = context.previous_value(ETAG)
    if step.cache is not None and last is not None:
        return None
    files = _matching(filled(step.path, context.variables), context.folder)
    names = sorted(files, key=lambda name: _place(name, step))
    new = [name for name in names if last is None or _place(name, step) > _place(last, step)]
    if not new:
        return None
    path = files[new[0]]
    try:
        data = path.read_bytes()
        event_time = _event_time(new[0], path, step, context)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error}") from error
    return Fetched(
        data=data,
        name=str(path),
        source_state=etag_state(new[0]),
        event_time=event_time,
        has_more=len(new) > 1,
    )


def _matching(pattern: str, folder: Path) -> dict[str, Path]:
    """Return the files that match, by their name."""
    whole = folder / pattern.removeprefix(_FILE_SCHEME)
    start = whole.parent
    while glob.has_magic(str(start)):
        start = start.parent
    paths = start.glob(str(whole.relative_to(start)))
    return {path.relative_to(start).as_posix(): path for path in paths if path.is_file()}


def _place(name: str, step: FetchStepFilesGlob) -> tuple[Timestamp | None, str]:
    """Return what files are ordered by."""
    is_by_time = step.order is SourceOrdering.BY_EVENT_TIME
    if is_by_time and isinstance(step.event_time, EventTimeSourceFromPath):
        return _time_in_path(name, step.event_time), name
    return None, name


def _event_time(
    name: str, path: Path, step: FetchStepFilesGlob, context: FetchContext
) -> Timestamp:
    match step.event_time:
        case EventTimeSourceFromPath() as source:
            return _time_in_path(name, source)
        case EventTimeSourceFromMetadata():
            return Timestamp.from_epoch_ns(path.stat().st_mtime_ns).truncated_ms()
        case _:
            return context.system_time


def _time_in_path(name: str, source: EventTimeSourceFromPath) -> Timestamp:
    try:
        found = re.search(source.pattern, name)
        text = None if found is None else found[1]
    except (re.error, IndexError) as error:
        raise InvalidInputError(
            f"{source.pattern!r} is no pattern with the time in its first group: {error}"
        ) from error
    if text is None:
        raise SourceError(f"{name} has no event time: {source.pattern!r} does not match")
    try:
        moment = datetime.strptime(text, source.timestamp_format or _DAY_FORMAT)  # noqa: DTZ007
    except ValueError as error:
        raise SourceError(f"{name} has no event time: {error}") from error
    # a time without a zone is in UTC
    return Timestamp.from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
