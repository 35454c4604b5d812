"""Columns of text as codes into a pool of texts."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import InvalidInputError

Int32 = npt.NDArray[np.int32]

NO_POOL = pa.chunked_array([], pa.large_string())
"""A pool of texts that holds none."""

TextColumn = tuple[Int32 | None, pa.ChunkedArray]
"""Codes into a pool of texts; None when no row has a text."""

ABSENT = -1
"""The code of a row that has no text."""

_FEW_TEXTS = 4096
_FEW_TEXTS_PER_ROW = 64
_BLOCK = 2**16
_PROBE = 2**14
_PACKING_LEVEL = 1
_SMALL_POOL = 16
"""Texts that travel as they are: a stream of Arrow takes longer to begin than they do."""

type PackedPool = bytes | list[str]


def encode_texts(
    texts: Sequence[str | None] | pa.Array | pa.ChunkedArray,
) -> TextColumn:
    """Return texts as codes into a pool of texts; (None, empty) when all are null.

    Equal texts share a code, except where there seem to be none: looking for them costs more than
    everything else that is done with a reference.
    """
    column = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else _as_arrow(texts)
    if column.null_count == len(column):
        return None, NO_POOL
    if not pa.types.is_dictionary(column.type):
        if not column.null_count and _seem_distinct(column):
            return np.arange(len(column), dtype=np.int32), _as_pool(column)
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    codes = column.indices
    codes = codes.fill_null(ABSENT) if codes.null_count else codes
    codes = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return codes, _as_pool(column.dictionary)


def _as_arrow(texts: Sequence[str | None]) -> pa.ChunkedArray:
    """Return texts block by block, each made small before the next where texts repeat."""
    try:
        is_distinct = _seem_distinct(texts)
        blocks = (
            pa.array(texts[start : start + _BLOCK], pa.large_string())
            for start in range(0, len(texts), _BLOCK)
        )
        chunks = [block if is_distinct else block.dictionary_encode() for block in blocks]
    except (TypeError, ValueError) as error:  # ValueError: half of a surrogate pair
        raise InvalidInputError(f"locations and checksums must be texts: {error}") from error
    return pa.chunked_array(chunks, chunks[0].type if chunks else pa.large_string())


def _seem_distinct(texts: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> bool:
    """Tell whether no text occurs twice among the first ones, nor among some throughout."""
    return all(len(set(sample)) == len(sample) for sample in _samples(texts))


def _samples(
    texts: Sequence[str | None] | pa.Array | pa.ChunkedArray,
) -> Iterator[Sequence[str | None]]:
    step = max(1, len(texts) // _PROBE)
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        yield texts[:_PROBE]
        yield texts[::step]
        return
    yield texts[:_PROBE].to_pylist()
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    yield [text for chunk in chunks for text in chunk[::step].to_pylist()]


def _as_pool(texts: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks], pa.large_string())


def decode_texts(code: Int32 | None, pool: pa.ChunkedArray, n: int) -> pa.ChunkedArray:
    """Return the text of each of `n` rows, null where there is none."""
    if code is None:
        return pa.chunked_array([pa.nulls(n, pa.large_string())])
    return pool.take(pa.array(code, mask=code < 0))


def text_at(
    code: Int32 | None, pool: pa.ChunkedArray, row: int, few: list[str] | None = None
) -> str | None:
    """Return the text of one row; `few` is the pool as `few_texts` gives it."""
    if code is None:
        return None
    number = code[row]
    if number < 0:
        return None
    text: str = few[number] if few is not None else pool[int(number)].as_py()
    return text


def few_texts(pool: pa.ChunkedArray, rows: int) -> list[str] | None:
    """Return the texts of a pool if they are few; Arrow takes longer to give one out."""
    few = min(_FEW_TEXTS, _FEW_TEXTS_PER_ROW * rows)
    texts: list[str] = pool.to_pylist() if len(pool) <= few else []
    return texts or None


def used_texts(code: Int32 | None, pool: pa.ChunkedArray) -> TextColumn:
    """Return the column with a pool that holds nothing but the texts in use, each once."""
    if code is None:
        return None, NO_POOL
    return encode_texts(decode_texts(code, pool, len(code)))


def concat_texts(columns: Sequence[TextColumn], lengths: Sequence[int]) -> TextColumn:
    """Return columns of the given lengths below each other; pools are linked, not copied."""
    pools = {id(pool): pool for code, pool in columns if code is not None}
    if not pools:
        return None, NO_POOL
    codes = np.concatenate(
        [
            absent_codes(n) if code is None else code
            for (code, _), n in zip(columns, lengths, strict=True)
        ]
    )
    if len(pools) == 1:
        return codes, next(iter(pools.values()))
    firsts = _first_entries(pools)
    _shift_codes(codes, [firsts.get(id(pool), 0) for _, pool in columns], lengths)
    chunks = [chunk for pool in pools.values() for chunk in pool.chunks]
    return codes, pa.chunked_array(chunks, pa.large_string())


def _first_entries(pools: Mapping[int, pa.ChunkedArray]) -> dict[int, int]:
    """Return where each pool starts when they are linked in this order."""
    starts = accumulate((len(pool) for pool in pools.values()), initial=0)
    return dict(zip(pools, starts, strict=False))


def _shift_codes(codes: Int32, shifts: Sequence[int], lengths: Sequence[int]) -> None:
    """Add a number of its own to the codes of each column; those of the first pool stay."""
    kept = next(i for i, shift in enumerate(shifts) if shift)
    tail = codes[sum(lengths[:kept]) :]
    by_row = np.repeat(np.array(shifts[kept:], np.int32), lengths[kept:])
    np.add(tail, by_row, out=tail, where=tail >= 0)


def patch_texts(
    column: TextColumn, rows: npt.NDArray[np.intp], edits: TextColumn, length: int
) -> TextColumn:
    """Return a column of this length with the texts of some rows exchanged."""
    codes, pool = concat_texts([column, edits], [length, len(rows)])
    if codes is None:
        return None, pool
    patched = codes[:length]
    patched[rows] = codes[length:]
    return patched, pool


def pack_pool(pool: pa.ChunkedArray) -> PackedPool:
    """Return the texts of a pool in little room, to be sent elsewhere."""
    if len(pool) <= _SMALL_POOL:
        texts: list[str] = pool.to_pylist()
        return texts
    packed = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", _PACKING_LEVEL))
    table = pa.table({"texts": pool})
    with pa.ipc.new_stream(packed, table.schema, options=options) as stream:
        stream.write_table(table)
    content: bytes = packed.getvalue().to_pybytes()
    return content


def unpack_pool(packed: PackedPool) -> pa.ChunkedArray:
    """Return the pool that `pack_pool` packed."""
    if isinstance(packed, list):
        return pa.chunked_array([pa.array(packed, pa.large_string())]) if packed else NO_POOL
    return pa.ipc.open_stream(packed).read_all()["texts"]


def absent_codes(n: int) -> Int32:
    """Return a column of `n` rows without text."""
    return np.broadcast_to(np.int32(ABSENT), n)
