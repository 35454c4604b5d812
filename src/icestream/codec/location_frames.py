"""Zstd frames of locations that begin alike, made and read as columns (RFC 8878, section 3.1.1).

Such a frame is one match, with the common beginning at the end of the dictionary, and the rest of
the location as it is. Frames of locations of one length differ in that rest only: they are joined
from pieces by Arrow, which takes a tenth of the time of a call of zstd for each.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

MAX_LOCATION_BYTES = 1024
"""Readers refuse compressed locations that are longer than this when expanded."""

MIN_PREFIX_BYTES = 16
"""A block must not be longer than what it holds: the beginning makes up for its overhead."""

_MAGIC = bytes.fromhex("28b52ffd")
_ID_BYTES = 4
_SHORT = 2**8
"""Frames of fewer bytes tell their size in one byte, others in two."""
_SHORT_DESCRIPTOR, _LONG_DESCRIPTOR = 0x23, 0x63
_SHORT_HEAD_BYTES = len(_MAGIC) + 1 + _ID_BYTES + 1 + 3 + 2
_LAST_COMPRESSED_BLOCK = 0b101
_RAW_OF_12_BITS = 0b0100
_ONE_SEQUENCE_OF_REPEATED_CODES = bytes([1, 0b01010100])
_MATCH_CODES = (
    *((3 + code, 0) for code in range(32)),
    *((35, 1), (37, 1), (39, 1), (41, 1), (43, 2), (47, 2), (51, 3), (59, 3)),
    *((67, 4), (83, 4), (99, 5), (131, 7), (259, 8), (515, 9)),
)
"""For each code of a match length: the shortest match it stands for, and its additional bits."""
_NOTHING = pa.scalar(b"", pa.large_binary())


def common_prefix(texts: pa.ChunkedArray) -> bytes:
    """Return what all texts begin with, of which there is at least one."""
    ends = pc.min_max(texts)
    first: bytes = ends["min"].as_py().encode()
    last: bytes = ends["max"].as_py().encode()
    differences = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differences, len(first))]


@dataclass(frozen=True)
class FrameTemplate:
    """The frames of one manifest whose locations begin with the end of the dictionary."""

    dictionary_id: bytes
    """As in the dictionary and in each frame."""
    prefix_size: int
    """At least `MIN_PREFIX_BYTES`, less than `MAX_LOCATION_BYTES`."""

    @classmethod
    def of_frame(cls, frame: bytes) -> "FrameTemplate | None":
        """Return the template that a frame seems to be made with; None if surely with none."""
        if len(frame) < _SHORT_HEAD_BYTES or frame[4] not in {_SHORT_DESCRIPTOR, _LONG_DESCRIPTOR}:
            return None
        is_long = frame[4] == _LONG_DESCRIPTOR
        size = int.from_bytes(frame[9 : 10 + is_long], "little") + _SHORT * is_long
        literals = int.from_bytes(frame[13 + is_long : 15 + is_long], "little") >> 4
        prefix_size = size - literals
        if size > MAX_LOCATION_BYTES or not MIN_PREFIX_BYTES <= prefix_size < MAX_LOCATION_BYTES:
            return None
        return cls(frame[5:9], prefix_size)

    def build(self, texts: pa.Array) -> pa.Array:
        """Return the frames of locations, which all have the prefix and are short enough."""
        heads = self._heads.take(pc.binary_length(texts))
        rest = pc.binary_slice(texts.cast(pa.large_binary()), self.prefix_size, MAX_LOCATION_BYTES)
        return pc.binary_join_element_wise(heads, rest, self._tail, _NOTHING)

    def expand(self, frames: pa.Array, prefix: bytes) -> pa.Array | None:
        """Return the locations of frames; None if one is not of this template.

        None too where short and long locations mix: they are read in another way.
        """
        overhead = _SHORT_HEAD_BYTES + len(self._tail.as_py()) - self.prefix_size
        sizes = pc.binary_length(frames).to_numpy() - overhead
        is_long = int(sizes.max()) - 1 >= _SHORT
        sizes -= is_long
        low, high = int(sizes.min()), int(sizes.max())
        if low < max(self.prefix_size, _SHORT * is_long) or high > MAX_LOCATION_BYTES:
            return None
        head_size = _SHORT_HEAD_BYTES + is_long
        heads = pc.binary_slice(frames, 0, head_size)
        is_built = pc.and_(
            pc.equal(heads, self._heads.take(pa.array(sizes))),
            pc.ends_with(frames, self._tail.as_py()),
        )
        if not pc.all(is_built).as_py():
            return None
        texts = pc.binary_replace_slice(frames, 0, head_size, prefix)
        return pc.binary_slice(texts, 0, -len(self._tail.as_py()))

    @cached_property
    def _tail(self) -> pa.Scalar:
        """The sequences section: no literals, then one match that is as far back as it is long."""
        code = max(i for i, (least, _) in enumerate(_MATCH_CODES) if least <= self.prefix_size)
        least, bits = _MATCH_CODES[code]
        offset = self.prefix_size + 3  # 1 to 3 stand for offsets used before
        offset_bits = offset.bit_length() - 1
        # read from its end: a one, then the additional bits of the offset, then of the length
        stream = offset << bits | (self.prefix_size - least)
        tail = (
            _ONE_SEQUENCE_OF_REPEATED_CODES
            + bytes([0, offset_bits, code])
            + stream.to_bytes((stream.bit_length() + 7) // 8, "little")
        )
        return pa.scalar(tail, pa.large_binary())

    @cached_property
    def _heads(self) -> pa.Array:
        """What is before the rest of a location, by the size of the location."""
        sizes = range(MAX_LOCATION_BYTES + 1)
        heads = [self._head(size) if size >= self.prefix_size else b"" for size in sizes]
        return pa.array(heads, pa.large_binary())

    def _head(self, size: int) -> bytes:
        is_long = size >= _SHORT
        literals = size - self.prefix_size
        block = 2 + literals + len(self._tail.as_py())
        return b"".join(
            (
                _MAGIC,
                bytes([_LONG_DESCRIPTOR if is_long else _SHORT_DESCRIPTOR]),
                self.dictionary_id,
                (size - _SHORT * is_long).to_bytes(1 + is_long, "little"),
                (block << 3 | _LAST_COMPRESSED_BLOCK).to_bytes(3, "little"),
                (literals << 4 | _RAW_OF_12_BITS).to_bytes(2, "little"),
            )
        )
