"""Many chunk references of one array as columns: the data structure that flows everywhere."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.chunk_columns import (
    concat_columns,
    concat_inline,
    patch_column,
    patch_inline,
    take_inline,
)
from icestream.model.chunk_refs import (
    ChunkRef,
    ChunkType,
    InlineRef,
    NativeRef,
    VirtualRef,
    kind_of,
)
from icestream.model.ids import OBJECT_ID_SIZE, ChunkId
from icestream.model.nodes import Extents, bounding_box
from icestream.model.text_pools import (
    NO_POOL,
    Int32,
    concat_texts,
    decode_texts,
    encode_texts,
    few_texts,
    pack_pool,
    patch_texts,
    text_at,
    unpack_pool,
    used_texts,
)

UInt8 = npt.NDArray[np.uint8]
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.intp]

_MAX_KEY = 2**63
_CHUNK_TYPES: tuple[ChunkType, ...] = tuple(ChunkType)
"""By number; calling the enumeration takes longer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkTable:
    """Chunk references of one array, sorted by index, each index once.

    A column that does not apply to a row holds 0 or -1 there; a column that applies to no row is
    None. Columns may be broadcast views of one value, and are never written to.
    """

    index: UInt32
    """(n, rank) chunk coordinates, in lexicographic order."""
    kind: UInt8
    """(n,) values of ChunkType; `uninitialized` marks a deletion and occurs in edits only."""
    byte_offset: UInt64
    length: UInt64
    location_code: Int32 | None = None
    """(n,) row in `locations`, or -1 where the reference is not virtual."""
    locations: pa.ChunkedArray = field(default_factory=lambda: NO_POOL)
    """Pool of location texts, large_string; those that repeat are there once."""
    etag_code: Int32 | None = None
    """(n,) row in `etags`, or -1."""
    etags: pa.ChunkedArray = field(default_factory=lambda: NO_POOL)
    last_modified: UInt32 | None = None
    """(n,) seconds since the epoch, 0 = not recorded."""
    chunk_id: UInt8 | None = None
    """(n, 12) ids of native chunks."""
    inline: pa.LargeBinaryArray | None = None
    """(n,) bytes of inline chunks, null elsewhere."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def rank(self) -> int:
        """Dimensions of the array."""
        return int(self.index.shape[1])

    @cached_property
    def extents(self) -> Extents:
        """The smallest box that holds all rows."""
        return bounding_box(self.index)

    @cached_property
    def is_dense(self) -> bool:
        """Tell whether the table holds every chunk of its bounding box."""
        return len(self) == math.prod(hi - lo for lo, hi in self.extents)

    @classmethod
    def empty(cls, rank: int) -> Self:
        """Return a table without rows."""
        return cls(
            index=np.empty((0, rank), np.uint32),
            kind=np.empty(0, np.uint8),
            byte_offset=np.empty(0, np.uint64),
            length=np.empty(0, np.uint64),
        )

    @classmethod
    def from_refs(cls, refs: Mapping[tuple[int, ...], ChunkRef | None], rank: int) -> Self:
        """Build a table from single references; None marks a deletion."""
        indexes = sorted(refs)
        values = [refs[index] for index in indexes]
        kinds = np.array([kind_of(ref) for ref in values], np.uint8)
        located = [ref if isinstance(ref, NativeRef | VirtualRef) else None for ref in values]
        virtual = [ref if isinstance(ref, VirtualRef) else None for ref in values]
        texts: list[tuple[Int32 | None, pa.ChunkedArray]] = [(None, NO_POOL)] * 2
        if any(virtual):
            texts = [
                encode_texts([ref and ref.location for ref in virtual]),
                encode_texts([ref and ref.etag for ref in virtual]),
            ]
        (location_code, locations), (etag_code, etags) = texts
        modified = np.array([ref.last_modified if ref else 0 for ref in virtual], np.uint32)
        return cls(
            index=np.array(indexes, np.uint32).reshape(len(indexes), rank),
            kind=kinds,
            byte_offset=np.array([ref.byte_offset if ref else 0 for ref in located], np.uint64),
            length=np.array([ref.length if ref else 0 for ref in located], np.uint64),
            location_code=location_code,
            locations=locations,
            etag_code=etag_code,
            etags=etags,
            last_modified=modified if modified.any() else None,
            chunk_id=_native_ids(values),
            inline=_inline_bytes(values),
        )

    # -- finding rows ---------------------------------------------------------------------------

    def find(self, index: Sequence[int]) -> int:
        """Return the row of a chunk index, or -1."""
        if not len(self):
            return -1
        row = 0
        for i, (lo, hi) in zip(index, self.extents, strict=True):
            if not lo <= i < hi:
                return -1
            row = row * (hi - lo) + (i - lo)
        if self.is_dense:
            return row
        if self._keys is None:
            return self._bisect(tuple(index))
        found = int(np.searchsorted(self._keys, row))
        return found if found < len(self) and self._keys[found] == row else -1

    def find_many(self, index: UInt32) -> Rows:
        """Return the row of each chunk index, -1 where there is none."""
        if not len(self) or not len(index):
            return np.full(len(index), -1, np.intp)
        inside = np.ones(len(index), bool)
        for axis, (lo, hi) in enumerate(self.extents):
            column = index[:, axis]
            inside &= (column >= lo) & (column < hi)
        rows = np.full(len(index), -1, np.intp)
        rows[inside] = self._find_inside(index[inside])
        return rows

    def _find_inside(self, index: UInt32) -> Rows:
        if self.is_dense:
            return linear_keys(index, self.extents).astype(np.intp)
        if self._keys is None:
            return np.array([self._bisect(tuple(row)) for row in index.tolist()], np.intp)
        wanted = linear_keys(index, self.extents)
        found = np.minimum(np.searchsorted(self._keys, wanted), len(self) - 1)
        return np.where(self._keys[found] == wanted, found, -1)

    @cached_property
    def _keys(self) -> UInt64 | None:
        """Positions in the bounding box, ascending; None when the box is too big to number."""
        return linear_keys(self.index, self.extents) if fits_linear(self.extents) else None

    def _bisect(self, index: tuple[int, ...]) -> int:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if tuple(self.index[middle].tolist()) < index:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and tuple(self.index[low].tolist()) == index else -1

    # -- reading rows ---------------------------------------------------------------------------

    def ref(self, row: int) -> ChunkRef | None:
        """Return one row as a value; None for a deletion."""
        kind: ChunkType = _CHUNK_TYPES[self.kind[row]]
        match kind:
            case ChunkType.uninitialized:
                return None
            case ChunkType.inline:
                assert self.inline is not None  # noqa: S101  invariant: the column exists for such a row
                return InlineRef(self.inline[row].as_py())
            case ChunkType.native:
                assert self.chunk_id is not None  # noqa: S101  invariant: the column exists for such a row
                chunk_id = ChunkId(self.chunk_id[row].tobytes())
                return NativeRef(chunk_id, int(self.byte_offset[row]), int(self.length[row]))
            case ChunkType.virtual:
                return VirtualRef(
                    text_at(self.location_code, self.locations, row, self._few_locations) or "",
                    int(self.byte_offset[row]),
                    int(self.length[row]),
                    text_at(self.etag_code, self.etags, row, self._few_etags),
                    int(self.last_modified[row]) if self.last_modified is not None else 0,
                )

    @cached_property
    def _few_locations(self) -> list[str] | None:
        return few_texts(self.locations, len(self))

    @cached_property
    def _few_etags(self) -> list[str] | None:
        return few_texts(self.etags, len(self))

    def location_column(self) -> pa.ChunkedArray:
        """Return the location text of each row, null where the reference is not virtual."""
        return decode_texts(self.location_code, self.locations, len(self))

    def etag_column(self) -> pa.ChunkedArray:
        """Return the ETag text of each row, null where there is none."""
        return decode_texts(self.etag_code, self.etags, len(self))

    # -- making other tables --------------------------------------------------------------------

    def take(self, rows: Rows | npt.NDArray[np.bool_] | slice) -> Self:
        """Return some rows, given in ascending order: positions, a mask or a slice."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        return type(self)(
            index=self.index[rows],
            kind=self.kind[rows],
            byte_offset=self.byte_offset[rows],
            length=self.length[rows],
            location_code=None if self.location_code is None else self.location_code[rows],
            locations=self.locations,
            etag_code=None if self.etag_code is None else self.etag_code[rows],
            etags=self.etags,
            last_modified=None if self.last_modified is None else self.last_modified[rows],
            chunk_id=None if self.chunk_id is None else self.chunk_id[rows],
            inline=take_inline(self.inline, rows),
        )

    def with_index(self, index: UInt32) -> "ChunkTable":
        """Return the same references at other, distinct coordinates."""
        moved = replace_columns(self, index=np.ascontiguousarray(index, np.uint32))
        order = lexicographic_order(moved.index)
        return moved if order is None else moved.take(order)

    def within(self, num_chunks: Sequence[int]) -> Self:
        """Return the rows that lie in a grid of this many chunks per dimension."""
        if all(hi <= count for (_, hi), count in zip(self.extents, num_chunks, strict=True)):
            return self
        return self.take((self.index < np.array(num_chunks, np.int64)).all(axis=1))

    def without_deletions(self) -> Self:
        """Return the rows that stand for a chunk."""
        if len(self) and self.kind.strides == (0,) and self.kind[0]:
            return self
        keep = self.kind != ChunkType.uninitialized
        return self if keep.all() else self.take(keep)

    def __getstate__(self) -> dict[str, Any]:
        return _shrink({f.name: getattr(self, f.name) for f in fields(self)}, dense=self.is_dense)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_expand(state))


def overlay(base: ChunkTable, edits: ChunkTable) -> ChunkTable:
    """Return `base` with the rows of `edits` added or put in place of those with equal index."""
    if not len(edits):
        return base
    if not len(base):
        return edits
    replaced = base.find_many(edits.index)
    if bool((replaced >= 0).all()):
        return _patch(base, replaced, edits)
    keep = np.ones(len(base), bool)
    keep[replaced[replaced >= 0]] = False
    return concat([base if keep.all() else base.take(keep), edits])


def _patch(base: ChunkTable, rows: Rows, edits: ChunkTable) -> ChunkTable:
    """Return `base` with the references of some rows exchanged: the index stays as it is."""
    n = len(base)
    location_code, locations = patch_texts(
        (base.location_code, base.locations), rows, (edits.location_code, edits.locations), n
    )
    etag_code, etags = patch_texts(
        (base.etag_code, base.etags), rows, (edits.etag_code, edits.etags), n
    )
    return ChunkTable(
        index=base.index,
        kind=patch_column(base.kind, rows, edits.kind, n),
        byte_offset=patch_column(base.byte_offset, rows, edits.byte_offset, n),
        length=patch_column(base.length, rows, edits.length, n),
        location_code=location_code,
        locations=locations,
        etag_code=etag_code,
        etags=etags,
        last_modified=patch_column(base.last_modified, rows, edits.last_modified, n),
        chunk_id=patch_column(base.chunk_id, rows, edits.chunk_id, n),
        inline=patch_inline(base.inline, rows, edits.inline, n),
    )


def concat(tables: Sequence[ChunkTable]) -> ChunkTable:
    """Return one sorted table of tables that share no index."""
    tables = [table for table in tables if len(table)] or list(tables[:1])
    if len(tables) == 1:
        return tables[0]
    joined = stack(tables)
    order = lexicographic_order(joined.index)
    return joined if order is None else joined.take(order)


def stack(tables: Sequence[ChunkTable]) -> ChunkTable:
    """Return the rows of tables below each other, which leaves them unsorted."""
    if len(tables) == 1:
        return tables[0]
    lengths = [len(table) for table in tables]
    location_code, locations = concat_texts(
        [(t.location_code, t.locations) for t in tables], lengths
    )
    etag_code, etags = concat_texts([(t.etag_code, t.etags) for t in tables], lengths)
    return ChunkTable(
        index=np.concatenate([t.index for t in tables]),
        kind=np.concatenate([t.kind for t in tables]),
        byte_offset=np.concatenate([t.byte_offset for t in tables]),
        length=np.concatenate([t.length for t in tables]),
        location_code=location_code,
        locations=locations,
        etag_code=etag_code,
        etags=etags,
        last_modified=concat_columns([t.last_modified for t in tables], lengths),
        chunk_id=concat_columns([t.chunk_id for t in tables], lengths),
        inline=concat_inline([t.inline for t in tables], lengths),
    )


def replace_columns(table: ChunkTable, **columns: Any) -> ChunkTable:
    """Return the table with some columns exchanged."""
    return ChunkTable(**{f.name: getattr(table, f.name) for f in fields(table)} | columns)


def dense_index(num_chunks: Sequence[int], start: Sequence[int] | None = None) -> UInt32:
    """Return the index of every chunk of a box, in order: (n, rank)."""
    start = start or [0] * len(num_chunks)
    n = math.prod(num_chunks)
    index = np.empty((n, len(num_chunks)), np.uint32)
    after = n
    for axis, (count, first) in enumerate(zip(num_chunks, start, strict=True)):
        after //= max(count, 1)
        column = np.arange(first, first + count, dtype=np.uint32)
        shaped = index[:, axis].reshape(-1, count, after) if n else index[:, axis]
        if n:
            shaped[...] = column[None, :, None]
    return index


def linear_keys(index: UInt32, extents: Extents) -> UInt64:
    """Return the position of each row in a box, counted in lexicographic order."""
    keys = np.zeros(len(index), np.uint64)
    for axis, (lo, hi) in enumerate(extents):
        keys *= np.uint64(hi - lo)
        keys += index[:, axis]
        keys -= np.uint64(lo)
    return keys


def fits_linear(extents: Extents) -> bool:
    """Tell whether positions in the box fit in 64 bits."""
    return math.prod(max(hi - lo, 1) for lo, hi in extents) < _MAX_KEY


def lexicographic_order(index: UInt32) -> Rows | None:
    """Return the stable order that sorts the rows, or None when they are sorted already."""
    if len(index) < 2 or not index.shape[1]:  # noqa: PLR2004  fewer than two rows are sorted
        return None
    extents = bounding_box(index)
    if not fits_linear(extents):
        return np.lexsort(index.T[::-1])
    keys = linear_keys(index, extents)
    if bool((keys[1:] >= keys[:-1]).all()):
        return None
    return np.argsort(keys, kind="stable")


def is_strictly_ascending(index: UInt32) -> bool:
    """Tell whether the rows are in order and no two are equal."""
    n = max(len(index) - 1, 0)
    ascends, ties = np.zeros(n, bool), np.ones(n, bool)
    for column in index.T:
        before, after = column[:-1], column[1:]
        ascends |= ties & (before < after)
        ties &= before == after
    return bool(ascends.all())


def drop_duplicates(table: ChunkTable) -> ChunkTable:
    """Return a sorted table in which the last of several rows with one index stays."""
    if len(table) < 2:  # noqa: PLR2004  one row has no duplicate
        return table
    same_as_next = (table.index[1:] == table.index[:-1]).all(axis=1)
    if not same_as_next.any():
        return table
    return table.take(np.append(~same_as_next, True))


# -- single columns ---------------------------------------------------------------------


def _native_ids(refs: Sequence[ChunkRef | None]) -> UInt8 | None:
    if not any(isinstance(ref, NativeRef) for ref in refs):
        return None
    absent = bytes(OBJECT_ID_SIZE)
    ids = b"".join(ref.chunk_id if isinstance(ref, NativeRef) else absent for ref in refs)
    return np.frombuffer(ids, np.uint8).reshape(len(refs), OBJECT_ID_SIZE)


def _inline_bytes(refs: Sequence[ChunkRef | None]) -> pa.LargeBinaryArray | None:
    if not any(isinstance(ref, InlineRef) for ref in refs):
        return None
    return pa.array(
        [ref.data if isinstance(ref, InlineRef) else None for ref in refs], pa.large_binary()
    )


# -- pickling: what can be derived or narrowed does not travel -------------------------


def _shrink(columns: dict[str, Any], *, dense: bool) -> dict[str, Any]:
    n, rank = columns["index"].shape
    state = {name: _shrink_column(value) for name, value in columns.items() if name != "index"}
    if dense:
        state["box"] = bounding_box(columns["index"])
    else:
        state["index"] = columns["index"]
    if columns["inline"] is not None:
        # Arrow would send all the bytes that a slice was cut from
        state["inline"] = pa.concat_arrays([columns["inline"]])
    for pool in ("locations", "etags"):
        if len(columns[pool]) > n:
            code = "location_code" if pool == "locations" else "etag_code"
            state[code], state[pool] = used_texts(columns[code], columns[pool])
        state[pool] = pack_pool(state[pool])
    return state | {"shape": (n, rank)}


def _shrink_column(column: Any) -> Any:
    if not isinstance(column, np.ndarray) or column.ndim != 1 or not len(column):
        return column
    if column.strides == (0,) or bool((column == column[0]).all()):
        return ("constant", column.dtype.str, int(column[0]))
    if column.dtype == np.uint64 and int(column.max()) < 2**32:
        return ("narrow", column.astype(np.uint32))
    return column


def _expand(state: dict[str, Any]) -> dict[str, Any]:
    n, _rank = state.pop("shape")
    box = state.pop("box", None)
    columns = {name: _expand_column(value, n) for name, value in state.items()}
    columns |= {pool: unpack_pool(state[pool]) for pool in ("locations", "etags")}
    if box is not None:
        columns["index"] = dense_index([hi - lo for lo, hi in box], [lo for lo, _ in box])
    return columns


def _expand_column(column: Any, n: int) -> Any:
    # not matched as a sequence: Arrow arrays of two or three rows would be taken for these
    if not isinstance(column, tuple):
        return column
    name, *parts = column
    if name == "constant":
        dtype, value = parts
        return np.broadcast_to(np.dtype(dtype).type(value), n)
    return parts[0].astype(np.uint64)
