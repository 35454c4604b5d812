"""Small web servers for tests: a file server, a redirect, and an S3 that ignores conditions."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback; yields the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def file_server(files: dict[str, bytes], seen: list[dict[str, str]]) -> type[QuietHandler]:
    """Return a handler that serves `files` with ranges, and notes the headers it saw."""

    class FileHandler(QuietHandler):
        def do_GET(self) -> None:
            seen.append(dict(self.headers))
            data = files.get(self.path)
            if data is None:
                self.answer(404)
                return
            about = {
                "ETag": f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"',
                "Last_Modified": "Sun, 15 Nov 2026 00:00:00 GMT",
            }
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if wanted is None:
                self.answer(200, data, **about)
                return
            start, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            content_range = f"bytes {start}-{last}/{len(data)}"
            self.answer(206, data[start : last + 1], Content_Range=content_range, **about)

        def do_HEAD(self) -> None:
            self.do_GET()

    return FileHandler


def redirector(locations: dict[str, str]) -> type[QuietHandler]:
    """Return a handler that redirects paths."""

    class RedirectHandler(QuietHandler):
        def do_GET(self) -> None:
            if self.path in locations:
                self.answer(302, Location=locations[self.path])
            else:
                self.answer(200, b"no redirect")

    return RedirectHandler


class FakeS3(QuietHandler):
    """A fake S3 that does not look at the conditions in `ignored`.

    It knows just enough of the protocol for the probe: PUT, GET, HEAD and bulk delete.
    """

    ignored: frozenset[str] = frozenset()
    objects: ClassVar[dict[str, bytes]] = {}

    def etag(self) -> str | None:
        data = self.objects.get(self.path)
        if data is None:
            return None
        return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'

    def condition(self, header: str) -> str | None:
        return None if header in self.ignored else self.headers.get(header)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        etag, expected = self.etag(), self.condition("If-Match")
        if (etag is not None and self.condition("If-None-Match")) or (
            expected is not None and expected != etag
        ):
            self.answer(412)
        else:
            self.objects[self.path] = data
            self.answer(200, ETag=self.etag() or "")

    def do_POST(self) -> None:
        keys = re.findall(rb"<Key>.*?</Key>", self.rfile.read(int(self.headers["Content-Length"])))
        self.objects.clear()
        deleted = b"".join(b"<Deleted>" + key + b"</Deleted>" for key in keys)
        self.answer(200, b"<DeleteResult>" + deleted + b"</DeleteResult>")


def fake_s3_without_conditions(*, ignored: frozenset[str]) -> type[FakeS3]:
    """Return a handler for a new, empty fake."""
    return type("FakeS3WithoutConditions", (FakeS3,), {"ignored": ignored, "objects": {}})
