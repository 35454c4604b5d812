"""Object keys as file names: the encoding that other Icechunk writers use on disk."""

import re
from urllib.parse import quote, unquote

from icestream.errors import ErrorKind, InvalidInputError

# Every key that the format itself makes (ids, `repo`, ordinary ref names) needs no encoding and
# no further look: one match tells that it has neither odd characters nor `..`.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")

# What the Rust object_store crate, and with it icechunk, leaves as it is in a path segment.
_SAFE = " !$&'()+,-.:;=@_"


def encode_key(path: str) -> str:
    """Return the key with the characters percent-encoded that icechunk encodes.

    Branch names may hold any character, and spec version 1 puts them into keys.

    Raises:
        InvalidInputError: The key is empty, or has an empty, `.` or `..` segment.
    """
    if _PLAIN.fullmatch(path):
        return path
    return "/".join(_encode_segment(segment, path) for segment in path.split("/"))


def encode_prefix(prefix: str) -> str:
    """Return the encoded form of the beginning of a key; it may be empty or end in a slash."""
    folder, slash, name = prefix.rpartition("/")
    encoded = encode_key(folder) if folder else ""
    return encoded + slash + (_encode_segment(name, prefix) if name else "")


def decode_key(encoded: str) -> str:
    """Undo `encode_key`."""
    return unquote(encoded) if "%" in encoded else encoded


def check_key(path: str) -> None:
    """Refuse keys that could leave the root, or that stores fold together."""
    if not _PLAIN.fullmatch(path):
        for segment in path.split("/"):
            _check_segment(segment, path)


def _encode_segment(segment: str, path: str) -> str:
    _check_segment(segment, path)
    return quote(segment, safe=_SAFE).replace("~", "%7E")


def _check_segment(segment: str, path: str) -> None:
    if segment in {"", ".", ".."} or "\0" in segment:
        raise InvalidInputError(
            f"{path!r} is no object key: no part between slashes may be empty, . or ..",
            kind=ErrorKind.INVALID_PATH,
        )
