"""Fetching: the next file of a polling source, if there is one."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks.events import SourceState
from icestream.ledger.blocks.sources import (
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
)
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.sources.expressions import filled
from icestream.ledger.data.sources.file_patterns import fetch_next_file
from icestream.ledger.data.sources.http_fetching import HttpAnswer, get_if_changed
from icestream.ledger.data.sources.states import (
    ETAG,
    LAST_MODIFIED,
    FetchContext,
    Fetched,
    etag_state,
    last_modified_state,
)

_MILLISECOND_NS = 1_000_000


def fetch(step: FetchStep, context: FetchContext) -> Fetched | None:
    """Return the next file of a source, None if there is nothing new.

    Args:
        step: Where the source is.
        context: How far it was read, and what its texts stand for.

    Raises:
        SourceError: The source does not answer, or not with a file.
        InvalidInputError: The step is not supported or contradicts itself.
    """
    if not isinstance(step, FetchStepUrl | FetchStepFilesGlob):
        kind = type(step).__name__.removeprefix("FetchStep")
        raise InvalidInputError(
            f"sources of the kind {kind} are not supported, only Url and FilesGlob"
        )
    if isinstance(step, FetchStepFilesGlob):
        return fetch_next_file(step, context)
    if step.cache is not None and context.previous is not None:
        return None
    if isinstance(step.event_time, EventTimeSourceFromPath):
        raise InvalidInputError("a Url has no event time in its path; use FromMetadata")
    url = filled(step.url, context.variables)
    scheme = urlsplit(url).scheme.lower()
    if scheme in {"http", "https"}:
        return _fetch_http(url, step, context)
    if scheme == "file":
        return _fetch_file(url, step, context)
    raise InvalidInputError(f"{url!r} is not supported; a Url starts with http, https or file")


def _fetch_http(url: str, step: FetchStepUrl, context: FetchContext) -> Fetched | None:
    headers = {
        header.name: filled(header.value, context.variables) for header in step.headers or ()
    }
    modified = context.previous_value(LAST_MODIFIED)
    answer = get_if_changed(
        url,
        headers,
        etag=context.previous_value(ETAG),
        modified=None if modified is None else Timestamp.parse(modified),
    )
    if answer is None:
        return None
    state = _state_of(answer)
    if state is not None and state == context.previous:
        return None  # the server does not know conditions, but says that nothing changed
    return Fetched(
        data=answer.data,
        name=url,
        source_state=state,
        event_time=_event_time(step, context, answer.last_modified),
    )


def _state_of(answer: HttpAnswer) -> SourceState | None:
    if answer.etag is not None:
        return etag_state(answer.etag)
    moment = answer.last_modified
    return None if moment is None else last_modified_state(moment)


def _fetch_file(url: str, step: FetchStepUrl, context: FetchContext) -> Fetched | None:
    path = Path(unquote(urlsplit(url).path))
    try:
        # rounded, because that is what blocks and records hold of it
        rounded = round(path.stat().st_mtime_ns / _MILLISECOND_NS)
        moment = Timestamp.from_epoch_ms(rounded)
        state = last_modified_state(moment)
        if state == context.previous:
            return None
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{url} cannot be read: {error}") from error
    return Fetched(
        data=data,
        name=url,
        source_state=state,
        event_time=_event_time(step, context, moment),
    )


def _event_time(
    step: FetchStepUrl, context: FetchContext, modified: Timestamp | None
) -> Timestamp | None:
    is_now = isinstance(step.event_time, EventTimeSourceFromSystemTime)
    return context.system_time if is_now else modified
