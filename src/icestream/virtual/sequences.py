"""Whether the chunks of an object are read one after the other, and which ones come next."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_tables import ChunkTable

Rows = npt.NDArray[np.intp]

_LOOK_FACTOR = 16
"""How far to look for references of the same object, among those of others."""
_FIRST_WINDOW = 16
_NEAR = 4
"""So many references of an object further on, it may still be the same reader."""
_MAX_STREAMS = 64
_MAX_CURSORS = 8
_MAX_END = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class RowHint:
    """Where a reference was found, and thus which references follow it."""

    table: ChunkTable
    row: int

    def following(self, count: int) -> Rows:
        """Return the next rows, at most `count`, that refer to the same object."""
        table, row = self.table, self.row
        if table.location_code is None:
            return np.empty(0, np.intp)
        ahead = slice(row + 1, row + 1 + count * _LOOK_FACTOR)
        same = table.location_code[ahead] == table.location_code[row]
        for checksum in (table.etag_code, table.last_modified):
            if checksum is not None:
                same &= checksum[ahead] == checksum[row]
        return np.flatnonzero(same)[:count] + (row + 1)


class Cursor:
    """A place up to which one reader has read, or will have, and how far to read ahead of it."""

    __slots__ = ("row", "size")

    def __init__(self, row: int) -> None:
        self.row = row
        self.size = 0

    def widen(self, max_refs: int) -> int:
        """Return the size of the next window: it doubles while reading goes on in order."""
        self.size = min(max(_FIRST_WINDOW, 2 * self.size), max_refs)
        return self.size


class SequenceDetector:
    """Tells reading in order from reading at random, for several readers of one array at a time.

    Reading is in order if at least half of the references of an object that are passed over were
    asked for. Not thread-safe.
    """

    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[int, int], list[Cursor]] = OrderedDict()

    def observe(self, hints: Sequence[RowHint | None]) -> list[tuple[Cursor, list[int]]]:
        """Note what is asked for at once, of one object.

        Returns:
            The place of each reader who goes in order, with the positions of its requests.
        """
        table = next((hint.table for hint in hints if hint is not None), None)
        if table is None:
            return []
        rows = [(h.row, i) for i, h in enumerate(hints) if h is not None and h.table is table]
        found = []
        for group in _groups(table, sorted(rows)):
            cursor = self._match(table, sorted({row for row, _ in group}))
            if cursor is not None:
                found.append((cursor, [position for _, position in group]))
        return found

    def _match(self, table: ChunkTable, rows: list[int]) -> Cursor | None:
        """Return the place of the reader who asked for these rows, if it goes in order."""
        cursors = self._cursors(table, rows[0])
        for cursor in cursors:
            if cursor.row < rows[0] and _is_dense(RowHint(table, cursor.row), rows):
                cursor.row = rows[-1]
                return cursor
        cursor = Cursor(rows[-1])
        cursors.insert(0, cursor)
        del cursors[_MAX_CURSORS:]
        return cursor if _is_dense(RowHint(table, rows[0]), rows[1:]) else None

    def _cursors(self, table: ChunkTable, row: int) -> list[Cursor]:
        code = -1 if table.location_code is None else int(table.location_code[row])
        stream = id(table), code  # only a guess hangs on it, should an id be used again
        cursors = self._streams.setdefault(stream, [])
        self._streams.move_to_end(stream)
        if len(self._streams) > _MAX_STREAMS:
            self._streams.popitem(last=False)
        return cursors


def _groups(table: ChunkTable, rows: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Part what different readers ask for: their rows are far from each other."""
    groups = [[rows[0]]]
    for item in rows[1:]:
        before, row = groups[-1][-1][0], item[0]
        if row - before <= _NEAR or row in RowHint(table, before).following(_NEAR):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _is_dense(before: RowHint, rows: Sequence[int]) -> bool:
    passed = before.following(2 * len(rows))
    return bool(len(rows) and len(passed) and rows[-1] <= passed[-1])


def sound_rows(table: ChunkTable, rows: Rows, max_bytes: int) -> Rows:
    """Return the first of the rows, as many as fit."""
    # one row that no object can hold ends the window: the reader will meet it soon enough
    lengths = table.length[rows]
    sound = (table.byte_offset[rows] < _MAX_END) & (lengths < _MAX_END)
    fitting = np.cumsum(np.where(sound, lengths, 0).astype(np.float64)) <= max_bytes
    return rows[: int(np.argmin(np.append(sound & fitting, False)))]
