"""Locations of virtual chunks: how they are spelled, what they may hold, which prefixes cover them.

A location is a URL such as `s3://bucket/path/file.nc`, or a path without a scheme whose first
segment is the bucket (`models/dev/file.nc`). Its *canonical* form is what is compared and what is
fetched: the scheme in lower case and by its first name (gs is gcs, az and abfs are azure), without
query and fragment, percent-decoded. A location whose canonical form could mean another place than
its text says is refused, never repaired.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from icestream.errors import ErrorKind, InvalidInputError

RELATIVE_SCHEME = "vcc"
"""`vcc://name/path` is relative to the container of that name."""

SCHEME_ALIASES: Mapping[str, str] = {"gs": "gcs", "az": "azure", "abfs": "azure"}

KNOWN_SCHEMES = frozenset({"s3", "tigris", "gcs", "azure", "http", "https", "file"})
"""First names of the schemes that belong to a platform."""

# shared with `location_pools`, where RE2 runs them over columns
SCHEME = r"[A-Za-z][A-Za-z0-9+._-]*"
PLAIN_BEGINNING = (
    r"(?:s3|gcs|azure|tigris|https?)://[A-Za-z0-9][A-Za-z0-9._-]*(?::[0-9]+)?"  # without the slash
)
PLAIN_PATTERN = rf"{PLAIN_BEGINNING}(?:/[^\x00-\x1f\x7f./\\?#%][^\x00-\x1f\x7f/\\?#%]*)+"
"""What most locations are: canonical, and without anything that needs a closer look."""
OBJECT_PATTERN = rf"(?s)^(?:{SCHEME}://[^/@\\]+/.|[^:/@\\]+/.)"
FILE_PATTERN = r"(?s)^file:///[^/]"
CONTROL_PATTERN = r"[\x00-\x1f\x7f]"
DOTS_PATTERN = r"(?:^|[/\\])\.\.?(?:[/\\]|$)"
BACKSLASH_PATTERN = r"(?s)^(?:file|https?)://.*\\"

_PLAIN = re.compile(PLAIN_PATTERN)
_OBJECT = re.compile(OBJECT_PATTERN)
_FILE = re.compile(FILE_PATTERN)
_CONTROL = re.compile(CONTROL_PATTERN)
_DOTS = re.compile(DOTS_PATTERN.replace("$", r"\Z"))
_ENCODED_SLASH = re.compile(r"(?i)%2f")
_BACKSLASH = re.compile(BACKSLASH_PATTERN)
_QUERY = re.compile(r"[?#]")
_SCHEME = re.compile(SCHEME)


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """One object: `key` in `bucket`, on the platform of the container that covers it."""

    scheme: str
    """Canonical, or empty."""
    bucket: str
    """The host of a web server; empty for local files."""
    key: str
    """Decoded; the path of a local file without its first slash."""


def split_location(location: str) -> ObjectAddress:
    """Return the object that an absolute location names.

    Raises:
        InvalidInputError: The location names no object, or not unmistakably.
    """
    text = canonical_location(location)
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    bucket, _, key = rest.partition("/")
    return ObjectAddress(scheme, bucket, key)


def canonical_location(location: str) -> str:
    """Return the form of an absolute location that is compared and fetched.

    Raises:
        InvalidInputError: The location names no object, or not unmistakably.
    """
    if _PLAIN.fullmatch(location):
        return location
    text = _QUERY.split(spelled(location), maxsplit=1)[0]
    fault = _text_fault(text)
    if fault is not None:
        raise invalid_location(location, fault)
    return unquote(text) if "%" in text else text


def location_fault(location: str) -> str | None:
    """Return why an absolute location is not stored, if it is not."""
    if _PLAIN.fullmatch(location):
        return None
    text = spelled(location)
    if _QUERY.search(text):
        return "has a query or fragment, which names no object; write '?' as %3F and '#' as %23"
    return _text_fault(text)


def is_relative(location: str) -> bool:
    """Tell whether a location is relative to a container."""
    return location[: len(RELATIVE_SCHEME) + 3].lower() == f"{RELATIVE_SCHEME}://"


def spelled(location: str) -> str:
    """Return a location or prefix with its scheme by its first name, in lower case."""
    scheme, separator, rest = location.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return location
    scheme = scheme.lower()
    if scheme == "file" and rest.startswith("localhost/"):
        rest = rest.removeprefix("localhost")
    return f"{SCHEME_ALIASES.get(scheme, scheme)}://{rest}"


def invalid_location(location: str, reason: str) -> InvalidInputError:
    """Return the error for a location that is refused."""
    return InvalidInputError(f"the location {location!r} {reason}", kind=ErrorKind.CANNOT_PARSE_URL)


def _text_fault(text: str) -> str | None:
    if is_relative(text):
        return "is relative to a container, and an absolute one is needed here"
    if _ENCODED_SLASH.search(text):
        return "has an encoded slash; write '/' if it separates folders"
    try:
        decoded = unquote(text, errors="strict") if "%" in text else text
    except UnicodeDecodeError:
        return "is not UTF-8 when percent-decoded"
    return _content_fault(decoded) or _shape_fault(decoded)


def _content_fault(decoded: str) -> str | None:
    if _CONTROL.search(decoded):
        return "has a control character"
    if _BACKSLASH.match(decoded):
        return "has a backslash, which web servers and file systems take for a slash"
    if _DOTS.search(decoded):
        return "has the segment '.' or '..'; name the object directly"
    return None


def _shape_fault(decoded: str) -> str | None:
    shape = _FILE if decoded.startswith("file:") else _OBJECT
    if shape.match(decoded):
        return None
    if decoded.startswith("/"):
        return f"has no scheme; a local file is file://{decoded}"
    if decoded.startswith("file:"):
        return "is not a path on this machine; write file:///folder/name"
    bucket = decoded.partition("://")[2].partition("/")[0]
    if "@" in (bucket or decoded.partition("/")[0]):
        return "has a user name or password; pass credentials when the repository is opened"
    return "names no object; write scheme://bucket/key"


# -- prefixes -------------------------------------------------------------------------------------


def prefix_fault(prefix: str) -> str | None:
    """Return why a prefix could cover no location, or not unmistakably."""
    text = spelled(prefix)
    scheme, separator, rest = text.partition("://")
    if is_relative(text) or text.lower() == RELATIVE_SCHEME:
        return "has the scheme vcc, which is for relative locations"
    if text in {"", "://"} or _QUERY.search(text):
        return "is empty, or has a query or fragment"
    if scheme == "file" and not rest.strip("/"):
        return "names no folder"
    if separator and not rest and _SCHEME.fullmatch(scheme):
        return None
    if not separator and "/" not in text:
        return None if _SCHEME.fullmatch(text) else "is neither a scheme nor a path"
    # below a prefix there is always something: judge it as if there were
    return _text_fault(text + ("x" if text.endswith("/") else "/x"))


def prefix_keys(prefix: str) -> tuple[str, ...]:
    """Return what locations below a prefix have before a slash; two that share one are the same.

    `s3` and `s3://` are the scheme `s3:`. A word that is no scheme of a platform is a scheme of the
    user's own, and the first segment of locations without a scheme.
    """
    text = unquote(spelled(prefix))
    if text.endswith("://"):
        return (text[:-2],)
    if "/" in text:
        return (text.rstrip("/"),)
    scheme = SCHEME_ALIASES.get(text.lower(), text.lower())
    return (f"{scheme}:",) if scheme in KNOWN_SCHEMES else (f"{scheme}:", text)


def is_folder(prefix: str) -> bool:
    """Tell whether a prefix covers only what is below it, and not an object of its own name."""
    return prefix.endswith("/")


def covers(prefix: str, location: str) -> bool:
    """Tell whether a prefix covers an absolute location: at its end, a slash or its scheme.

    Raises:
        InvalidInputError: The location names no object, or not unmistakably.
    """
    return PrefixMap.of({prefix: True}).find(location) is not None


@dataclass(frozen=True, slots=True)
class PrefixMap[T]:
    """Values by prefix, of which the longest that covers a location is found."""

    entries: Mapping[str, tuple[bool, T]]
    """By key of a prefix: whether it is a folder, and the value."""

    @staticmethod
    def of[V](values: Mapping[str, V]) -> "PrefixMap[V]":
        """Return the map of these values by prefix."""
        return PrefixMap(
            {
                key: (is_folder(prefix), value)
                for prefix, value in values.items()
                for key in prefix_keys(prefix)
            }
        )

    def find(self, location: str) -> T | None:
        """Return the value of the longest prefix that covers an absolute location.

        Raises:
            InvalidInputError: The location names no object, or not unmistakably.
        """
        return self.find_canonical(canonical_location(location))

    def find_canonical(self, text: str) -> T | None:
        """Return the value of the longest prefix that covers a canonical location."""
        whole = self.entries.get(text)
        if whole is not None and not whole[0]:
            return whole[1]
        found = next((key for key in _folders(text) if key in self.entries), None)
        return None if found is None else self.entries[found][1]


def _folders(text: str) -> Iterator[str]:
    """Yield what is before each slash, the longest first."""
    end = text.rfind("/")
    while end >= 0:
        yield text[:end]
        end = text.rfind("/", 0, end)
