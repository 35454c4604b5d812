"""Checks that the functions which make storages share."""

from icestream.errors import ErrorKind, InvalidInputError
from icestream.storage.addresses import RequestHeaders

Headers = dict[str, str] | None


def merged_headers(both: Headers, read: Headers = None, write: Headers = None) -> RequestHeaders:
    """Return the headers of reads and of writes; those of one role win over the common ones."""
    common = both or {}
    return RequestHeaders({**common, **(read or {})}, {**common, **(write or {})})


def checked_prefix(prefix: str | None) -> str:
    """Return the prefix without a slash at its end."""
    if prefix is not None and prefix.startswith("/"):
        raise bad_argument("prefix", "keys that begin with a slash cannot be reached")
    return (prefix or "").rstrip("/")


def checked_name(argument: str, value: str) -> str:
    """Return a name that is not empty."""
    if not value:
        raise bad_argument(argument, "it is empty")
    return value


def bad_argument(argument: str, message: str) -> InvalidInputError:
    """Return the error for an argument that makes no storage."""
    return InvalidInputError(f"{argument}: {message}", kind=ErrorKind.STORAGE_CONFIG)


def completed_endpoint(endpoint_url: str | None, *, allow_http: bool) -> str | None:
    """Return an endpoint with its scheme: people write `localhost:9000`."""
    if not endpoint_url:
        return None
    scheme, separator, _ = endpoint_url.partition("://")
    if not separator:
        return f"{'http' if allow_http else 'https'}://{endpoint_url}"
    if scheme.lower() not in {"http", "https"}:
        raise bad_argument("endpoint_url", f"{scheme}:// is neither http:// nor https://")
    if scheme.lower() == "http" and not allow_http:
        raise bad_argument("endpoint_url", "http:// is not encrypted; allow it with allow_http")
    return endpoint_url
