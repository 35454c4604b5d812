"""One file over HTTP, only if it has changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

from icestream.errors import SourceError
from icestream.ledger.blocks.times import Timestamp

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A file, and what its server says about it."""

    data: bytes
    etag: str | None
    last_modified: Timestamp | None


def get_if_changed(
    url: str,
    headers: Mapping[str, str],
    *,
    etag: str | None = None,
    modified: Timestamp | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> HttpAnswer | None:
    """Return a file, None if it is still as it was.

    Args:
        url: Of the file, http or https.
        headers: To send along; not to other hosts that the server sends us to.
        etag: Of the version that is known.
        modified: When the version that is known was modified.
        timeout_s: How long the server may be silent.

    Raises:
        SourceError: There is no answer, or none with a file.
    """
    conditions = {}
    if etag is not None:
        conditions["If-None-Match"] = etag
    elif modified is not None:
        conditions["If-Modified-Since"] = format_datetime(modified.to_datetime(), usegmt=True)
    asked = request.Request(url, headers={**headers, **conditions})  # noqa: S310  http alone
    try:
        with _opener(headers).open(asked, timeout=timeout_s) as response:
            return HttpAnswer(
                data=response.read(),
                etag=response.headers.get("ETag"),
                last_modified=_moment(response.headers.get("Last-Modified")),
            )
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.NOT_MODIFIED:
            return None
        raise SourceError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{url} cannot be fetched: {error}") from error


def _moment(text: str | None) -> Timestamp | None:
    """Return the time of a header; one that is malformed says nothing."""
    if text is None:
        return None
    try:
        return Timestamp.from_datetime(parsedate_to_datetime(text))
    except ValueError:
        return None


def _opener(headers: Mapping[str, str]) -> request.OpenerDirector:
    """Return an opener that knows http and https alone, also after redirects."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
        _Redirects(headers),
    ):
        opener.add_handler(handler)
    return opener


class _Redirects(request.HTTPRedirectHandler):
    """Follows redirects, and keeps headers from hosts that they were not meant for."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._names = list(headers)

    def redirect_request(  # noqa: PLR0917  the signature is that of the base class
        self,
        req: request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> request.Request | None:
        """Return the request to follow with."""
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        one, other = urlsplit(req.full_url), urlsplit(newurl)
        if following is not None and (one.scheme, one.netloc) != (other.scheme, other.netloc):
            for name in self._names:
                following.remove_header(name.capitalize())
        return following
