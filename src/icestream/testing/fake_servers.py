"""Small servers of our own on loopback, for what no server that can be installed offers.

They are fakes: faithful in what the tests ask of them, and in nothing else.
"""

import hashlib
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_HOST = "127.0.0.1"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d+/(?P<region>[^/]+)/s3/")
_LIST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as a fake server saw it; names of headers are in lower case."""

    method: str
    path: str
    """Decoded, without the query."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a fake server says."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a fake server."""

    data: bytes
    modified: datetime
    generation: int

    @property
    def etag(self) -> str:
        """The ETag as it stands in a header."""
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


class FakeWebServer:
    """A web server with files in memory: ranges, conditions, and access by header.

    Args:
        required_headers: Who does not send them is answered with 401.
        conditions: Whether If-Match and If-Unmodified-Since are looked at.
        named: Which of `ETag` and `Last-Modified` answers have.
    """

    def __init__(
        self,
        *,
        required_headers: Mapping[str, str] | None = None,
        conditions: bool = True,
        named: Iterable[str] = ("ETag", "Last-Modified"),
    ) -> None:
        self.required_headers = dict(required_headers or {})
        self.files: dict[str, StoredFile] = {}
        self.requests: list[SeenRequest] = []
        self._conditions = conditions
        self._named = frozenset(named)
        self._generations = count(1)
        self._lock = threading.RLock()
        self._server = _Server((_HOST, 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def host(self) -> str:
        """Host and port."""
        return f"{_HOST}:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://{self.host}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, path: str, data: bytes, *, modified: datetime | None = None) -> StoredFile:
        """Write a file, whose path begins with a slash."""
        with self._lock:
            stored = StoredFile(data, modified or datetime.now(UTC), next(self._generations))
            self.files[path] = stored
            return stored

    def count(self, method: str) -> int:
        """Return how many requests of a method came."""
        return sum(request.method == method for request in self.requests)

    def meet(self, request: SeenRequest) -> Answer:
        """Note a request and answer it."""
        self.requests.append(request)
        return self.refusal(request) or self.answer(request)

    def refusal(self, request: SeenRequest) -> Answer | None:
        """Return how somebody who has no access is turned away."""
        for name, value in self.required_headers.items():
            if request.headers.get(name.lower()) != value:
                return Answer(401, headers={"WWW-Authenticate": "Bearer"})
        return None

    def answer(self, request: SeenRequest) -> Answer:
        """Answer a request of somebody who has access."""
        if request.method not in {"GET", "HEAD"}:
            return Answer(405)
        stored = self.files.get(request.path)
        return Answer(404) if stored is None else self.read(request, stored)

    def read(self, request: SeenRequest, stored: StoredFile) -> Answer:
        """Return the file or a range of it, under the conditions of the request."""
        about = {
            "ETag": stored.etag,
            "Last-Modified": format_datetime(stored.modified, usegmt=True),
        }
        about = {name: value for name, value in about.items() if name in self._named}
        if self._conditions and not _holds(request, stored):
            return Answer(412, headers=about)
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        if wanted is None:
            return Answer(200, stored.data, about)
        size = len(stored.data)
        start, last = int(wanted[1]), min(int(wanted[2] or size), size - 1)
        if start >= size:
            return Answer(416, headers={"Content-Range": f"bytes */{size}"})
        about["Content-Range"] = f"bytes {start}-{last}/{size}"
        return Answer(206, stored.data[start : last + 1], about)


def _holds(request: SeenRequest, stored: StoredFile) -> bool:
    if (wanted := request.headers.get("if-match")) is not None:
        return wanted in {stored.etag, "*"}
    if (since := request.headers.get("if-unmodified-since")) is not None:
        return stored.modified.replace(microsecond=0) <= parsedate_to_datetime(since)
    return True


class FakeGcs(FakeWebServer):
    """A fake of the XML interface of Google Cloud Storage.

    `tokens` holds the bearer token of each bucket; a bucket with None is public. No token or an
    unknown one is answered with 401, the token of another bucket with 403.
    """

    def __init__(self, tokens: Mapping[str, str | None]) -> None:
        super().__init__()
        self.tokens = dict(tokens)

    def store_options(self) -> dict[str, str]:
        """Return the options of a client that reaches this server."""
        return {"base_url": self.url, "allow_http": "true"}

    def refusal(self, request: SeenRequest) -> Answer | None:
        """Turn away who has no token for the bucket."""
        bucket = _bucket(request)
        if bucket not in self.tokens:
            return _fault(404, "NoSuchBucket", "The specified bucket does not exist.")
        wanted = self.tokens[bucket]
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if wanted is None or sent == wanted:
            return None
        if sent in self.tokens.values():
            return _fault(403, "AccessDenied", "Access denied.")
        return _fault(401, "AuthenticationRequired", "Authentication required.")

    def answer(self, request: SeenRequest) -> Answer:
        """Do what the interface can: read, write under a generation, delete, list."""
        if not request.path.removeprefix(f"/{_bucket(request)}").strip("/"):
            return self._list(request)
        with self._lock:
            stored = self.files.get(request.path)
            if request.method == "PUT":
                return self._write(request, stored)
            if request.method == "DELETE" and stored is not None:
                del self.files[request.path]
                return Answer(204)
        if stored is None:
            return _fault(404, "NoSuchKey", "The specified key does not exist.")
        answer = self.read(request, stored)
        generation = {"x-goog-generation": str(stored.generation)}
        return Answer(answer.status, answer.body, {**answer.headers, **generation})

    def _write(self, request: SeenRequest, stored: StoredFile | None) -> Answer:
        wanted = request.headers.get("x-goog-if-generation-match")
        current = stored.generation if stored else 0
        if wanted is not None and int(wanted) != current:
            return _fault(412, "PreconditionFailed", "At least one condition did not hold.")
        written = self.put(request.path, request.body)
        generation = {"x-goog-generation": str(written.generation)}
        return Answer(200, headers={"ETag": written.etag, **generation})

    def _list(self, request: SeenRequest) -> Answer:
        root = f"/{_bucket(request)}/"
        after = request.query.get("continuation-token") or request.query.get("start-after", "")
        wanted = root + request.query.get("prefix", "")
        with self._lock:
            found = sorted(
                (path.removeprefix(root), stored)
                for path, stored in self.files.items()
                if path.startswith(wanted) and path.removeprefix(root) > after
            )
        page = found[:_LIST_PAGE]
        lines = "".join(_listed(key, stored) for key, stored in page)
        if len(found) > len(page):
            lines += f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>"
        return Answer(200, f"<ListBucketResult>{lines}</ListBucketResult>".encode())


class FakeS3(FakeWebServer):
    """A fake of S3 in one region, for how it turns readers away; it does not check signatures.

    Args:
        buckets: The region that each bucket is in.
        denied: Access keys that exist, and may read nothing.
        ended_tokens: Session tokens whose time is over.
        region: Where this endpoint is.
    """

    def __init__(
        self,
        buckets: Mapping[str, str],
        *,
        denied: Iterable[str] = (),
        ended_tokens: Iterable[str] = (),
        region: str = "us-east-1",
    ) -> None:
        super().__init__()
        self._buckets = dict(buckets)
        self._denied = frozenset(denied)
        self._ended_tokens = frozenset(ended_tokens)
        self._region = region

    def refusal(self, request: SeenRequest) -> Answer | None:
        """Turn away who is too late, signs for another region, or has no permission."""
        signed = _SIGNED.match(request.headers.get("authorization", ""))
        token = request.headers.get("x-amz-security-token")
        if token in self._ended_tokens:
            shown = f"<Token-0>{token}</Token-0>"
            return _fault(400, "ExpiredToken", "The provided token has expired.", shown)
        home = self._buckets.get(_bucket(request))
        if home is None:
            return _fault(404, "NoSuchBucket", "The specified bucket does not exist")
        if home != self._region or (signed is not None and signed["region"] != home):
            return self._sent_home(home, signed["region"] if signed else None)
        if signed is None or signed["key"] in self._denied:
            return _fault(403, "AccessDenied", "Access Denied")
        return None

    def _sent_home(self, home: str, signed_for: str | None) -> Answer:
        if signed_for in {None, self._region}:
            answer = _fault(
                301,
                "PermanentRedirect",
                "The bucket you are attempting to access must be addressed using the specified "
                "endpoint.",
                f"<Endpoint>s3.{home}.amazonaws.com</Endpoint>",
            )
        else:
            answer = _fault(
                400,
                "AuthorizationHeaderMalformed",
                f"The authorization header is malformed; the region '{signed_for}' is wrong; "
                f"expecting '{home}'",
                f"<Region>{home}</Region>",
            )
        return Answer(answer.status, answer.body, {"x-amz-bucket-region": home})

    def answer(self, request: SeenRequest) -> Answer:
        """Read objects, and nothing else."""
        stored = self.files.get(request.path)
        if stored is None:
            return _fault(404, "NoSuchKey", "The specified key does not exist.")
        return self.read(request, stored)


def _bucket(request: SeenRequest) -> str:
    return request.path.split("/")[1]


def _listed(key: str, stored: StoredFile) -> str:
    modified = stored.modified.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.data)}</Size></Contents>"
    )


def _fault(status: int, code: str, message: str, more: str = "") -> Answer:
    text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code>"
    return Answer(status, f"{text}<Message>{message}</Message>{more}</Error>".encode())


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that goes away, as a forked one does, is no fault of the server."""


def _handler(owner: FakeWebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each small answer waits for an acknowledgement

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def meet(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            answer = owner.meet(
                SeenRequest(self.command, unquote(parts.path), query, headers, body)
            )
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    for method in ("GET", "HEAD", "PUT", "DELETE", "POST"):
        setattr(Handler, f"do_{method}", Handler.meet)
    return Handler
