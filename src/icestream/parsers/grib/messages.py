"""Where the messages of a GRIB file are, and the keys of each."""

from collections.abc import Buffer, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import eccodes

_BEGINNING = b"GRIB"
_END = b"7777"
_EDITION_1_LARGE = 0x800000
_EDITION_2 = 2
_HEAD_BYTES = 16
_BITMAP_SECTION, _DATA_SECTION = 6, 7
_SAME_BITMAP = 254
_SHORTEST = 12


@dataclass(frozen=True, slots=True)
class MessageRange:
    """A message of a file."""

    offset: int
    length: int
    fields: int = 1
    """Fields in it; edition 2 allows many."""
    fault: str | None = None
    """Why it is none that can be read."""


def find_messages(content: Buffer) -> Iterator[MessageRange]:
    """Yield the messages of a file; what lies between them is skipped."""
    view = memoryview(content)
    position = _next_beginning(view, 0)
    while position >= 0:
        found = _message_at(view, position)
        yield found
        after = position + (found.length if found.fault is None else len(_BEGINNING))
        position = _next_beginning(view, after)


@contextmanager
def opened_message(data: bytes) -> Iterator[int]:
    """Open a message for ecCodes, and close it afterwards."""
    handle: int = eccodes.codes_new_from_message(data)
    try:
        yield handle
    finally:
        eccodes.codes_release(handle)


def key_of(handle: int, name: str, default: Any = None) -> Any:
    """Return a key of a message; the default if it has no such key."""
    try:
        return eccodes.codes_get(handle, name)
    except eccodes.CodesInternalError:
        return default


def _next_beginning(view: memoryview, start: int, step: int = 1 << 20) -> int:
    """Return where the next message begins, or -1."""
    while start < len(view):
        found = bytes(view[start : start + step + len(_BEGINNING) - 1]).find(_BEGINNING)
        if found >= 0:
            return start + found
        start += step
    return -1


def _message_at(view: memoryview, start: int) -> MessageRange:
    head = bytes(view[start : start + 16])
    if len(head) < _SHORTEST:
        return MessageRange(start, 0, fault="the file ends in it")
    is_second = head[7] == _EDITION_2
    length = int.from_bytes(head[8:16]) if is_second else int.from_bytes(head[4:7])
    if not is_second and length & _EDITION_1_LARGE:
        # longer than three bytes can say: counted in units of 120 bytes, less what section 4 says
        return _large_message(view, start, length)
    end = start + length
    if length < _SHORTEST or end > len(view) or view[end - 4 : end] != _END:
        return MessageRange(start, 0, fault="it does not end where it says")
    return MessageRange(start, length, _count_fields(view[start:end]) if is_second else 1)


def _large_message(view: memoryview, start: int, length: int) -> MessageRange:
    longest = (length & (_EDITION_1_LARGE - 1)) * 120
    for end in range(start + longest, max(start + longest - 120, start), -1):
        if view[end - 4 : end] == _END:
            return MessageRange(start, end - start)
    return MessageRange(start, 0, fault="it does not end where it says")


def _count_fields(message: memoryview) -> int:
    return sum(number == _DATA_SECTION for number, _ in _sections(message))


def _sections(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and bytes of the sections of a message of edition 2, but the first and last."""
    position = _HEAD_BYTES
    while position + 5 <= len(message) - len(_END):
        length = int.from_bytes(message[position : position + 4])
        if length < 5:  # noqa: PLR2004  the length and number of a section
            return
        yield message[position + 4], message[position : position + length]
        position += length


def single_field(message: bytes, field: int) -> bytes:
    """Return one of the fields of a message as a message of its own.

    A field has the sections that precede its data; those that it does not repeat are as before.
    """
    current: dict[int, memoryview] = {}
    for number, section in _sections(memoryview(message)):
        is_repeated_bitmap = number == _BITMAP_SECTION and section[5] == _SAME_BITMAP
        if not is_repeated_bitmap:
            current[number] = section
        if number == _DATA_SECTION:
            if field == 0:
                break
            field -= 1
    body = b"".join(current[number] for number in sorted(current))
    length = _HEAD_BYTES + len(body) + len(_END)
    return message[:8] + length.to_bytes(8) + body + _END
