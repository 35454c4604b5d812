"""Many locations at once: what `locations` says about one, said about a pool of distinct ones.

Regular expressions over all texts are costly, searches for a byte in the whole pool are not: a
check runs only where the pool has the bytes that it is about.
"""

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.locations import (
    BACKSLASH_PATTERN,
    CONTROL_PATTERN,
    DOTS_PATTERN,
    FILE_PATTERN,
    OBJECT_PATTERN,
    PLAIN_BEGINNING,
    PLAIN_PATTERN,
    RELATIVE_SCHEME,
    SCHEME_ALIASES,
    is_folder,
    prefix_keys,
    spelled,
)

Mask = npt.NDArray[np.bool_]

_ODD_BEGINNING = (
    rf"^(?P<beginning>(?:{'|'.join(SCHEME_ALIASES)}|[A-Za-z0-9+._-]*[A-Z][A-Za-z0-9+._-]*)"
    r"://(?:localhost/)?|file://localhost/)"
)
_SPACE, _PERCENT, _SLASH, _DELETE = 0x20, 0x25, 0x2F, 0x7F
_NEVER_PLAIN = tuple(bytes([byte]) for byte in (_DELETE, *b"\\?#%"))
_BLOCK = 1 << 17
"""Bytes that are looked at together: they stay in the processor's cache."""
_NO_HEX = 16
_PROBE = 16

_HEX = np.full(256, _NO_HEX, np.uint8)
"""The value of each hexadecimal digit."""
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def as_texts(pool: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a pool as one array of large texts."""
    if isinstance(pool, pa.ChunkedArray):
        chunks = pool.chunks or [pa.array([], pool.type)]
        pool = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return pool if pool.type == pa.large_string() else pool.cast(pa.large_string())


def starts_with(texts: pa.Array, beginning: str) -> Mask:
    """Tell which texts start in this way."""
    return _mask(pc.starts_with(texts, beginning))


def matches(texts: pa.Array, pattern: str) -> Mask:
    """Tell which texts have a match of a regular expression (RE2)."""
    return _mask(pc.match_substring_regex(texts, pattern))


def exchanged(texts: pa.Array, rows: Mask, beginning: str, other: str) -> pa.Array:
    """Return texts in which some rows, which start with `beginning`, start with `other`."""
    size = len(beginning.encode())
    data = pc.binary_replace_slice(texts.view(pa.large_binary()), 0, size, other.encode())
    replaced = data.view(pa.large_string())  # rows that start otherwise may be no text any more
    return replaced if rows.all() else pc.if_else(pa.array(rows), replaced, texts)


def covered(prefix: str, canonical: pa.Array) -> Mask:
    """Tell which canonical texts a prefix covers."""
    found = np.zeros(len(canonical), np.bool_)
    for key in prefix_keys(prefix):
        found |= starts_with(canonical, f"{key}/")
        if not is_folder(prefix):
            found |= _mask(pc.equal(canonical, key))
    return found


def are_plain(texts: pa.Array) -> bool:
    """Tell whether no text needs a closer look: all are canonical, and none is refused."""
    pattern = f"^{PLAIN_PATTERN}$"
    if len(texts) <= _PROBE**2:
        return bool(matches(texts, pattern).all())
    if not matches(texts.slice(0, _PROBE), pattern).all():
        return False
    return _are_plain_below_one_place(texts) or bool(matches(texts, pattern).all())


def _are_plain_below_one_place(texts: pa.Array) -> bool:
    """Tell whether all texts are plain and of the bucket of the first; several times faster."""
    found = re.match(f"{PLAIN_BEGINNING}/", texts[0].as_py())
    if found is None or not starts_with(texts, found[0]).all():
        return False
    data, offsets = _columns(texts)
    blocks = [data[start : start + _BLOCK + 1] for start in range(0, len(data), _BLOCK)]
    return (
        not any(map(_has_odd_bytes, blocks))
        # none but those of the schemes: no name is empty or starts with a dot
        and sum(map(_num_slashes_before_slash_or_dot, blocks)) == len(texts)
        and bool((data[offsets[1:] - 1] != _SLASH).all())
    )


def _has_odd_bytes(block: npt.NDArray[np.uint8]) -> bool:
    raw = block.tobytes()
    return bool(block.min() < _SPACE) or any(byte in raw for byte in _NEVER_PLAIN)


def _num_slashes_before_slash_or_dot(block: npt.NDArray[np.uint8]) -> int:
    slash_or_dot = (block[1:] | 1) == _SLASH  # their codes differ in the last bit
    return int(np.count_nonzero((block[:-1] == _SLASH) & slash_or_dot))


def spelled_texts(texts: pa.Array) -> pa.Array:
    """Return texts with their schemes by their first names, in lower case."""
    odd = pc.match_substring_regex(texts, _ODD_BEGINNING)
    if not pc.any(odd).as_py():
        return texts
    found = pc.struct_field(pc.extract_regex(texts.filter(odd), _ODD_BEGINNING), "beginning")
    for beginning in sorted(pc.unique(found).to_pylist(), key=len, reverse=True):
        texts = exchanged(texts, starts_with(texts, beginning), beginning, spelled(beginning))
    return texts


def canonical_texts(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """Return spelled texts in canonical form, and which of them are refused."""
    if are_plain(texts):
        return texts, _none(texts)
    raw = _bytes(texts)
    canonical, faulty = _decoded(texts) if b"%" in raw else (texts, _none(texts))
    faulty |= starts_with(texts, f"{RELATIVE_SCHEME}://")
    if b"?" in raw or b"#" in raw:
        faulty |= matches(texts, r"[?#]")
    content = raw if canonical is texts else _bytes(canonical)
    if b"\\" in content:
        faulty |= matches(canonical, BACKSLASH_PATTERN)
    if np.frombuffer(content, np.uint8).min(initial=_SPACE) < _SPACE or b"\x7f" in content:
        faulty |= matches(canonical, CONTROL_PATTERN)
    if b"/." in content or b"\\" in content or starts_with(canonical, ".").any():
        faulty |= matches(canonical, DOTS_PATTERN)
    return canonical, faulty | ~_shaped(canonical)


def _shaped(canonical: pa.Array) -> Mask:
    shaped = matches(canonical, OBJECT_PATTERN)
    files = starts_with(canonical, "file:")
    return np.where(files, matches(canonical, FILE_PATTERN), shaped) if files.any() else shaped


# -- percent-encoding -----------------------------------------------------------------------------


def _decoded(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """Return texts percent-decoded, and which have an encoded slash or are not UTF-8 then."""
    decoded, faulty = _percent_decoded(texts)
    try:
        return decoded.cast(pa.large_string()), faulty
    except pa.ArrowInvalid:
        faulty |= np.array([not _is_utf8(text) for text in decoded.to_pylist()])
        valid = pc.if_else(pa.array(faulty), pa.scalar(b"", pa.large_binary()), decoded)
        return valid.cast(pa.large_string()), faulty


def _percent_decoded(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """Return texts percent-decoded, and which have an encoded slash."""
    data, offsets = _columns(texts)
    data = data.copy()
    at = np.flatnonzero(data[:-2] == _PERCENT)
    rows = np.searchsorted(offsets, at, side="right") - 1
    high, low = _HEX[data[at + 1]], _HEX[data[at + 2]]
    is_code = (high < _NO_HEX) & (low < _NO_HEX) & (at + 2 < offsets[rows + 1])
    at, rows, codes = at[is_code], rows[is_code], ((high << 4) | low)[is_code]
    data[at] = codes
    kept = np.ones(len(data), np.bool_)
    kept[at + 1] = kept[at + 2] = False
    starts = offsets - 2 * np.searchsorted(at, offsets)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data[kept])]
    has_slash = np.zeros(len(texts), np.bool_)
    has_slash[rows[codes == _SLASH]] = True
    return pa.Array.from_buffers(pa.large_binary(), len(texts), buffers), has_slash


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- columns --------------------------------------------------------------------------------------


def _mask(flags: pa.Array) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask


def _none(texts: pa.Array) -> Mask:
    return np.zeros(len(texts), np.bool_)


def _columns(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of all texts, and where each begins and the last ends."""
    _, offset_buffer, data_buffer = texts.buffers()
    if not len(texts) or data_buffer is None:
        return np.empty(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def _bytes(texts: pa.Array) -> bytes:
    return _columns(texts)[0].tobytes()
