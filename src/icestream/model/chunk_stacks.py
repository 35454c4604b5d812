"""References of many small arrays in one table, cut when those of one array are asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import NodeId
from icestream.model.text_pools import NO_POOL, Int32, TextColumn

SMALL_TABLE_ROWS = 2**12
"""Tables with fewer rows take longer to handle one by one than to put together."""

_SMALL_POOL = 64

# what an array has at least one of; the lowest bits are those of the chunk types
_NATIVE = 1 << ChunkType.native
_VIRTUAL = 1 << ChunkType.virtual
_INLINE = 1 << ChunkType.inline
_ETAG = 1 << len(ChunkType)
_MODIFIED = _ETAG << 1


@dataclass(frozen=True, slots=True, eq=False)
class ChunkStack:
    """The references of several arrays of the same rank, none of them without references."""

    rows: ChunkTable
    """Their index has one coordinate more, the first: the number of the array."""
    bounds: Sequence[int]
    """The first row of each array, and the number of rows."""
    contents: Sequence[int]
    """What each array has at least one of, as bits."""

    @classmethod
    def of(cls, rows: ChunkTable, counts: npt.NDArray[np.int64]) -> Self:
        """Return a stack of arrays that have these numbers of rows."""
        bounds = np.append(0, np.cumsum(counts))
        found = np.bitwise_or.reduceat(_row_contents(rows), bounds[:-1])
        return cls(rows, bounds.tolist(), found.tolist())

    def count(self, number: int) -> int:
        """Return how many references an array has."""
        return self.bounds[number + 1] - self.bounds[number]

    def cut(self, number: int) -> ChunkTable:
        """Return the references of one array; its columns are views."""
        part = slice(self.bounds[number], self.bounds[number + 1])
        has = self.contents[number]
        rows = self.rows
        location_code, locations = _cut_texts(
            rows.location_code if has & _VIRTUAL else None, rows.locations, part
        )
        etag_code, etags = _cut_texts(rows.etag_code if has & _ETAG else None, rows.etags, part)
        return ChunkTable(
            index=rows.index[part, 1:],
            kind=rows.kind[part],
            byte_offset=rows.byte_offset[part],
            length=rows.length[part],
            location_code=location_code,
            locations=locations,
            etag_code=etag_code,
            etags=etags,
            last_modified=_cut(rows.last_modified, part) if has & _MODIFIED else None,
            chunk_id=_cut(rows.chunk_id, part) if has & _NATIVE else None,
            inline=_cut(rows.inline, part) if has & _INLINE else None,
        )


def _row_contents(rows: ChunkTable) -> npt.NDArray[np.uint8]:
    contents = np.left_shift(np.uint8(1), rows.kind)
    if rows.etag_code is not None:
        contents[rows.etag_code >= 0] |= _ETAG
    if rows.last_modified is not None:
        contents[rows.last_modified > 0] |= _MODIFIED
    return contents


def _cut(column: Any, part: slice) -> Any:
    return None if column is None else column[part]


def _cut_texts(code: Int32 | None, pool: Any, part: slice) -> TextColumn:
    """Return the texts of some rows; the pool is shared unless it is larger than they need."""
    if code is None:
        return None, NO_POOL
    code = code[part]
    if len(pool) <= max(len(code), _SMALL_POOL):
        return code, pool
    used = code[code >= 0]
    if not len(used):
        return None, NO_POOL
    first, last = int(used.min()), int(used.max())
    if last - first < len(code):
        return np.where(code < 0, code, code - np.int32(first)), pool.slice(first, last - first + 1)
    entries, places = np.unique(code, return_inverse=True)
    absent = np.int32(entries[0] < 0)
    return places.astype(np.int32) - absent, pool.take(entries[absent:])


class StackedTable(NamedTuple):
    """One array of a stack."""

    stack: ChunkStack
    number: int

    @property
    def num_refs(self) -> int:
        """How many references the array has."""
        return self.stack.count(self.number)


class StackedTables(Mapping[NodeId, ChunkTable]):
    """The references of arrays, those in stacks cut when they are first asked for."""

    __slots__ = ("_cut", "_places")

    def __init__(self, places: Mapping[NodeId, ChunkTable | StackedTable]) -> None:
        self._places = places
        self._cut: dict[NodeId, ChunkTable] = {}

    def __getitem__(self, node_id: NodeId) -> ChunkTable:
        place = self._places[node_id]
        if isinstance(place, ChunkTable):
            return place
        table = self._cut.get(node_id)
        if table is None:
            table = self._cut.setdefault(node_id, place.stack.cut(place.number))
        return table

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._places

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def num_refs(self) -> int:
        """References of all arrays together, counted without cutting them out."""
        return sum(
            len(place) if isinstance(place, ChunkTable) else place.num_refs
            for place in self._places.values()
        )

    def held_tables(self) -> list[ChunkTable]:
        """Return the tables that hold all references: whole stacks, and single tables."""
        places = self._places.values()
        tables = (place if isinstance(place, ChunkTable) else place.stack.rows for place in places)
        return list({id(table): table for table in tables}.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._places,)
