"""Columns of text as codes into a pool of distinct texts."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import InvalidInputError

Int32 = npt.NDArray[np.int32]

NO_POOL = pa.chunked_array([], pa.large_string())
"""A pool of texts that holds none."""

ABSENT = -1
"""The code of a row that has no text."""


def encode_texts(
    texts: Sequence[str | None] | pa.Array | pa.ChunkedArray,
) -> tuple[Int32 | None, pa.ChunkedArray]:
    """Return texts as codes into a pool of distinct texts; (None, empty) when all are null."""
    column = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else _as_arrow(texts)
    if column.null_count == len(column):
        return None, NO_POOL
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    codes = column.indices
    codes = codes.fill_null(ABSENT) if codes.null_count else codes
    pool = pa.chunked_array([column.dictionary.cast(pa.large_string())])
    return codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False), pool


def _as_arrow(texts: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(texts, pa.large_string())
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise InvalidInputError(f"locations and checksums must be texts: {error}") from error


def decode_texts(code: Int32 | None, pool: pa.ChunkedArray, n: int) -> pa.ChunkedArray:
    """Return the text of each of `n` rows, null where there is none."""
    if code is None:
        return pa.chunked_array([pa.nulls(n, pa.large_string())])
    return pool.take(pa.array(code, mask=code < 0))


def text_at(code: Int32 | None, pool: pa.ChunkedArray, row: int) -> str | None:
    """Return the text of one row."""
    if code is None or code[row] < 0:
        return None
    text: str = pool[int(code[row])].as_py()
    return text


def used_texts(code: Int32 | None, pool: pa.ChunkedArray) -> tuple[Int32 | None, pa.ChunkedArray]:
    """Return the column with a pool that holds nothing but the texts in use, each once."""
    if code is None:
        return None, NO_POOL
    return encode_texts(decode_texts(code, pool, len(code)))


def concat_texts(
    columns: Sequence[tuple[Int32 | None, pa.ChunkedArray]], lengths: Sequence[int]
) -> tuple[Int32 | None, pa.ChunkedArray]:
    """Return columns of the given lengths below each other; pools are linked, not copied."""
    pools = [pool for code, pool in columns if code is not None]
    if not pools:
        return None, NO_POOL
    if all(pool is pools[0] for pool in pools):
        parts = [
            absent_codes(n) if code is None else code
            for (code, _), n in zip(columns, lengths, strict=True)
        ]
        return np.concatenate(parts), pools[0]
    codes: list[Int32] = []
    shift = 0
    for (code, pool), n in zip(columns, lengths, strict=True):
        if code is None:
            codes.append(absent_codes(n))
            continue
        codes.append(np.where(code < 0, ABSENT, code + shift).astype(np.int32))
        shift += len(pool)
    chunks = [chunk for pool in pools for chunk in pool.chunks]
    return np.concatenate(codes), pa.chunked_array(chunks, pa.large_string())


def absent_codes(n: int) -> Int32:
    """Return a column of `n` rows without text."""
    return np.broadcast_to(np.int32(ABSENT), n)
