"""Metadata values, as commits and repositories carry them: any JSON value.

Spec 1 stores each value as MessagePack, spec 2 as a FlexBuffer.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgpack
from msgpack import fallback

from icestream.codec.flexbuffers import MAX_DEPTH, decode_flex, encode_flex
from icestream.errors import ErrorKind, FormatError, InvalidInputError

MESSAGE_PACK_SPEC = 1
"""The spec version whose metadata values are MessagePack; later ones have FlexBuffers."""

_MAX_UNSIGNED = 2**64 - 1
_MIN_SIGNED = -(2**63)


def encode_value(value: Any, spec: int) -> bytes:
    """Return the stored form of one JSON value.

    Raises:
        InvalidInputError: The value has no JSON form.
    """
    json_value = _checked_input(value, "value", 0)
    if spec == MESSAGE_PACK_SPEC:
        return bytes(msgpack.packb(json_value))
    return encode_flex(json_value)


def decode_value(data: bytes | memoryview, spec: int, *, name: str) -> Any:
    """Return the JSON value in the stored bytes.

    Raises:
        FormatError: The bytes do not hold a JSON value in the encoding of this spec version.
    """
    value = (
        _unpack(bytes(data), name) if spec == MESSAGE_PACK_SPEC else decode_flex(data, name=name)
    )
    return _checked_output(value, name, 0)


def _unpack(data: bytes, name: str) -> Any:
    # The compiled unpacker allocates what array headers promise, level by level, before it looks
    # at the content; the Python one grows with the content. Values are small.
    try:
        return fallback.unpackb(data, raw=False)
    except (msgpack.UnpackException, ValueError) as error:
        raise _wrong(name, f"no valid MessagePack: {str(error) or type(error).__name__}") from error


def _checked_input(value: Any, path: str, depth: int) -> Any:
    """Return the value made of plain types, or say which part has no JSON form."""
    if depth > MAX_DEPTH:
        raise _no_json(path, f"nests deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case str():
            return _checked_text(value, path)
        case int() | float():
            return _checked_number(value, path)
        case Mapping():
            return {
                _checked_key(key, path): _checked_input(item, f"{path}.{key}", depth + 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_checked_input(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        case _:
            raise _no_json(path, f"{type(value).__name__} has no JSON form")


def _checked_number(value: Any, path: str) -> float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _no_json(path, f"{value} is not a JSON number; use None")
        return float(value)
    if not _MIN_SIGNED <= value <= _MAX_UNSIGNED:
        raise _no_json(path, f"{value} does not fit in 64 bits; use text")
    return int(value)


def _checked_key(key: Any, path: str) -> str:
    if not isinstance(key, str) or "\0" in key:
        raise _no_json(path, f"key {key!r} is not a text without NUL")
    return _checked_text(key, path)


def _checked_text(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _no_json(path, f"{text!r} is not valid Unicode") from error
    return str(text)


def _checked_output(value: Any, name: str, depth: int) -> Any:
    """Return the decoded value if it is one of JSON; numbers that JSON lacks become null."""
    if depth > MAX_DEPTH:
        raise _wrong(name, f"values nest deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case list():
            return [_checked_output(item, name, depth + 1) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _checked_output(item, name, depth + 1) for key, item in value.items()}
        case _:
            raise _wrong(name, f"a {type(value).__name__} is not a JSON value")


def _no_json(path: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"metadata {path}: {reason}", kind=ErrorKind.BAD_METADATA)


def _wrong(name: str, reason: str) -> FormatError:
    return FormatError(f"{name}: {reason}", kind=ErrorKind.DESERIALIZATION)
