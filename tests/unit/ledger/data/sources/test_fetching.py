"""Fetching from servers and folders."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks.events import AddData, DataSlice, OffsetInterval, SourceState
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.blocks.sources import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    RequestHeader,
    SourceCachingForever,
    SourceOrdering,
)
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.sources.fetching import fetch
from icestream.ledger.data.sources.states import (
    FetchContext,
    Fetched,
    etag_state,
    is_uncacheable,
    last_modified_state,
)

_NOW = Timestamp.parse("2024-06-01T00:00:00Z")
_MAY = Timestamp.parse("2024-05-01T10:00:00Z")
_MAY_HTTP = "Wed, 01 May 2024 10:00:00 GMT"


@dataclass
class _Server:
    """A server of one file, which remembers the headers of its requests."""

    answer: dict[str, str] = field(default_factory=dict)
    knows_conditions: bool = True
    redirect: str | None = None
    status: int = 200
    seen: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def status_for(self, headers: dict[str, str]) -> int:
        if self.redirect is not None:
            return 302
        asked = headers.get("If-None-Match"), headers.get("If-Modified-Since")
        known = self.answer.get("ETag", ""), self.answer.get("Last-Modified", "")
        is_same = any(one == other for one, other in zip(asked, known, strict=True))
        return 304 if self.knows_conditions and is_same else self.status


@pytest.fixture
def new_server() -> Iterator[Callable[..., _Server]]:
    running: list[ThreadingHTTPServer] = []

    def start(**settings: Any) -> _Server:
        server = _Server(**settings)
        http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
        Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}).start()
        running.append(http)
        server.url = f"http://127.0.0.1:{http.server_port}/cities.csv"
        return server

    yield start
    for http in running:
        http.shutdown()
        http.server_close()


def _handler(server: _Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = dict(self.headers.items())
            server.seen.append(headers)
            self.send_response(server.status_for(headers))
            for name, value in server.answer.items():
                self.send_header(name, value)
            if server.redirect is not None:
                self.send_header("Location", server.redirect)
            self.end_headers()
            self.wfile.write(b"a,b\n")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler


def _context(
    previous: SourceState | None = None, folder: Path = Path("/nowhere"), **variables: str
) -> FetchContext:
    return FetchContext(previous=previous, system_time=_NOW, folder=folder, variables=variables)


def _fetched(step: FetchStepUrl | FetchStepFilesGlob, context: FetchContext) -> Fetched:
    found = fetch(step, context)
    assert found is not None
    return found


# servers


def test_an_etag_is_preferred_as_state_and_the_file_time_is_the_event_time(new_server):
    server = new_server(answer={"ETag": '"v1"', "Last-Modified": _MAY_HTTP})

    found = _fetched(FetchStepUrl(url=server.url), _context())

    assert found.data == b"a,b\n"
    assert found.source_state == etag_state('"v1"')
    assert found.event_time == _MAY
    assert not found.has_more


def test_the_file_time_is_the_state_where_there_is_no_etag(new_server):
    server = new_server(answer={"Last-Modified": _MAY_HTTP})

    assert _fetched(FetchStepUrl(url=server.url), _context()).source_state == last_modified_state(
        _MAY
    )


def test_a_server_that_tells_nothing_gives_no_state(new_server):
    server = new_server(answer={"Last-Modified": "yesterday"})

    found = _fetched(FetchStepUrl(url=server.url), _context())

    assert (found.source_state, found.event_time) == (None, None)


@pytest.mark.parametrize("knows_conditions", [True, False])
@pytest.mark.parametrize(
    ("state", "header"),
    [
        (etag_state('"v1"'), ("If-None-Match", '"v1"')),
        (last_modified_state(_MAY), ("If-Modified-Since", _MAY_HTTP)),
    ],
)
def test_what_has_not_changed_is_not_fetched(new_server, knows_conditions, state, header):
    is_etag = state.kind == "odf/etag"
    answer = {"ETag": '"v1"'} if is_etag else {"Last-Modified": _MAY_HTTP}
    server = new_server(answer=answer, knows_conditions=knows_conditions)

    assert fetch(FetchStepUrl(url=server.url), _context(state)) is None
    assert header in server.seen[0].items()


def test_what_has_changed_is_fetched(new_server):
    server = new_server(answer={"ETag": '"v2"'})

    found = _fetched(FetchStepUrl(url=server.url), _context(etag_state('"v1"')))

    assert found.source_state == etag_state('"v2"')


def test_states_of_unknown_kinds_are_ignored(new_server):
    server = new_server(answer={"ETag": '"v1"'})
    other = replace(etag_state('"v1"'), kind="example/other")

    assert fetch(FetchStepUrl(url=server.url), _context(other)) is not None


def test_what_is_cached_forever_is_fetched_once(new_server):
    server = new_server(answer={"ETag": '"v2"'})
    step = FetchStepUrl(url=server.url, cache=SourceCachingForever())

    assert fetch(step, _context()) is not None
    assert fetch(step, _context(etag_state('"v1"'))) is None


def test_the_event_time_may_be_that_of_the_ingestion(new_server):
    server = new_server(answer={"Last-Modified": _MAY_HTTP})
    step = FetchStepUrl(url=server.url, event_time=EventTimeSourceFromSystemTime())

    assert _fetched(step, _context()).event_time == _NOW


def test_headers_and_urls_have_variables_filled_in(new_server):
    server = new_server()
    header = RequestHeader(name="Authorization", value="Bearer ${{ env.TOKEN }}")
    url = server.url.replace("cities.csv", "${{ env.FILE || 'cities.csv' }}")

    found = _fetched(FetchStepUrl(url=url, headers=(header,)), _context(TOKEN="t"))

    assert server.seen[0]["Authorization"] == "Bearer t"
    assert found.name == server.url


def test_headers_are_not_sent_to_other_hosts(new_server):
    other = new_server()
    server = new_server(redirect=other.url)
    header = RequestHeader(name="Authorization", value="secret")

    fetch(FetchStepUrl(url=server.url, headers=(header,)), _context())

    assert server.seen[0]["Authorization"] == "secret"
    assert "Authorization" not in other.seen[0]


def test_redirects_to_files_are_not_followed(new_server):
    server = new_server(redirect="file:///etc/hostname")

    with pytest.raises(SourceError):
        fetch(FetchStepUrl(url=server.url), _context())


def test_a_server_that_refuses_is_named(new_server):
    server = new_server(status=404)

    with pytest.raises(SourceError, match=r"cities.csv answers 404 Not Found"):
        fetch(FetchStepUrl(url=server.url), _context())


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:9/x cannot be fetched"):
        fetch(FetchStepUrl(url="http://127.0.0.1:9/x"), _context())


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (FetchStepUrl(url="ftp://host/x"), "starts with http, https or file"),
        (FetchStepUrl(url="${{ env.NONE }}"), "set the variable"),
        (
            FetchStepUrl(url="http://x", event_time=EventTimeSourceFromPath(pattern="(.*)")),
            "has no event time in its path",
        ),
        (FetchStepContainer(image="x"), "kind Container are not supported, only Url and FilesGlob"),
    ],
)
def test_steps_that_are_not_supported_are_refused(step, problem):
    with pytest.raises(InvalidInputError, match=problem):
        fetch(step, _context())


# files


def _write(path: Path, text: str, moment: Timestamp = _MAY) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(moment.epoch_ns, moment.epoch_ns))


def test_a_file_has_its_time_as_state_and_event_time(tmp_path):
    path = tmp_path / "my cities.csv"
    _write(path, "a", Timestamp.parse("2024-05-01T10:00:00.1236Z"))
    step = FetchStepUrl(url=path.as_uri())

    found = _fetched(step, _context())

    rounded = Timestamp.parse("2024-05-01T10:00:00.124Z")
    assert found.source_state == last_modified_state(rounded)
    assert found.event_time == rounded
    assert fetch(step, _context(found.source_state)) is None


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"none.csv cannot be read"):
        fetch(FetchStepUrl(url=(tmp_path / "none.csv").as_uri()), _context())


def _names(step: FetchStepFilesGlob, folder: Path, state: SourceState | None = None) -> list[str]:
    """Fetch until nothing is left, and return the names that came."""
    names = []
    while (found := fetch(step, _context(state, folder))) is not None:
        names.append(Path(found.name).relative_to(folder).as_posix())
        assert found.source_state is not None
        state = found.source_state
    return names


def test_files_come_one_by_one_in_the_order_of_their_names(tmp_path):
    for name in ("b.csv", "a.csv", "c.txt"):
        _write(tmp_path / name, name)
    step = FetchStepFilesGlob(path="*.csv")

    first = _fetched(step, _context(folder=tmp_path))

    assert first.data == b"a.csv"
    assert first.has_more
    assert first.source_state == etag_state("a.csv")
    assert first.event_time == _NOW
    assert not _fetched(step, _context(first.source_state, tmp_path)).has_more
    assert _names(step, tmp_path) == ["a.csv", "b.csv"]
    assert _names(step, tmp_path, etag_state("aa.csv")) == ["b.csv"]


def test_files_of_several_folders_are_told_apart(tmp_path):
    for name in ("x/a.csv", "y/a.csv"):
        _write(tmp_path / name, name)

    assert _names(FetchStepFilesGlob(path="*/a.csv"), tmp_path) == ["x/a.csv", "y/a.csv"]
    assert _names(FetchStepFilesGlob(path=f"file://{tmp_path}/**/*.csv"), tmp_path) == [
        "x/a.csv",
        "y/a.csv",
    ]


def test_files_have_the_event_time_of_their_path(tmp_path):
    _write(tmp_path / "cities-2024-05-01.csv", "a")
    source = EventTimeSourceFromPath(pattern=r"(\d+-\d+-\d+)")

    found = _fetched(FetchStepFilesGlob(path="*.csv", event_time=source), _context(folder=tmp_path))

    assert found.event_time == Timestamp.parse("2024-05-01T00:00:00Z")


def test_files_may_have_the_event_time_of_their_modification(tmp_path):
    _write(tmp_path / "a.csv", "a", _MAY)
    step = FetchStepFilesGlob(path="*.csv", event_time=EventTimeSourceFromMetadata())

    assert _fetched(step, _context(folder=tmp_path)).event_time == _MAY


def test_files_come_in_the_order_of_event_times(tmp_path):
    for name in ("2.1.2024.csv", "10.1.2024.csv", "1.2.2023.csv"):
        _write(tmp_path / name, name)
    source = EventTimeSourceFromPath(pattern=r"(.*)\.csv", timestamp_format="%d.%m.%Y")
    step = FetchStepFilesGlob(path="*.csv", event_time=source, order=SourceOrdering.BY_EVENT_TIME)

    assert _names(step, tmp_path) == ["1.2.2023.csv", "2.1.2024.csv", "10.1.2024.csv"]


@pytest.mark.parametrize(
    ("source", "error", "problem"),
    [
        (EventTimeSourceFromPath(pattern=r"(\d{8})"), SourceError, "does not match"),
        (EventTimeSourceFromPath(pattern="(a)"), SourceError, "has no event time: time data"),
        (EventTimeSourceFromPath(pattern="a"), InvalidInputError, "in its first group"),
        (EventTimeSourceFromPath(pattern="("), InvalidInputError, "in its first group"),
    ],
)
def test_paths_without_event_time_are_refused(tmp_path, source, error, problem):
    _write(tmp_path / "a.csv", "a")

    with pytest.raises(error, match=problem):
        fetch(FetchStepFilesGlob(path="*.csv", event_time=source), _context(folder=tmp_path))


def test_the_order_of_event_times_needs_them_in_the_path(tmp_path):
    step = FetchStepFilesGlob(path="*.csv", order=SourceOrdering.BY_EVENT_TIME)

    with pytest.raises(InvalidInputError, match="only with the source FromPath"):
        fetch(step, _context(folder=tmp_path))


# states


def test_a_source_that_was_read_and_gave_no_state_is_uncacheable():
    digest = sha3_256(b"")
    data = DataSlice(
        logical_hash=digest,
        physical_hash=digest,
        offset_interval=OffsetInterval(start=0, end=0),
        size=1,
    )

    assert is_uncacheable(AddData(new_data=data))
    assert not is_uncacheable(AddData(new_data=data, new_source_state=etag_state("v")))
    assert not is_uncacheable(None)
