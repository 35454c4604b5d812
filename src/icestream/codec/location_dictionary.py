"""Virtual locations compressed one by one with a zstd dictionary (spec 2, Manifest)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from icestream.codec.columns import BLOCK_ROWS, FlatColumns, Int64
from icestream.codec.location_frames import (
    MAX_LOCATION_BYTES,
    FrameTemplate,
    common_prefix,
)
from icestream.codec.text_columns import as_texts
from icestream.model.manifests import LocationCompression

_WORTHWHILE_PREFIX = 32
"""Well above the two dozen bytes that a frame adds to what is not common."""
_SHORT_SAMPLE = 8
_MAGIC = bytes.fromhex("28b52ffd")
_MIN_FRAME = 9
_UNUSUAL = 0b00001100
_DICTIONARY_ID_BYTES = np.array([0, 1, 2, 4])


@dataclass(frozen=True, slots=True)
class CompressedLocations:
    """Locations as zstd frames, and the dictionary that they need."""

    dictionary: bytes
    frames: pa.ChunkedArray
    """One frame for each location that is compressed, in order."""
    is_compressed: npt.NDArray[np.bool_]
    """For each location; long ones stay plain."""


def compress_locations(
    texts: pa.ChunkedArray, settings: LocationCompression | None
) -> CompressedLocations | None:
    """Compress distinct locations; None when the settings or the locations speak against it."""
    if settings is None or len(texts) < settings.min_num_chunks:
        return None
    is_short = pc.binary_length(texts).to_numpy() <= MAX_LOCATION_BYTES
    if not is_short.any():
        return None
    short = texts if is_short.all() else texts.filter(pa.array(is_short))
    compressed = _compress_alike(short, settings) or _compress_each(short, settings)
    if compressed is None:
        return None
    dictionary, blocks = compressed
    return CompressedLocations(dictionary, pa.chunked_array(blocks, pa.large_binary()), is_short)


_Compressed = tuple[bytes, Iterable[pa.Array]]
"""The dictionary, and frames in blocks."""


def _compress_alike(texts: pa.ChunkedArray, settings: LocationCompression) -> _Compressed | None:
    """Compress locations of which half or more is a common beginning; None for others."""
    prefix = common_prefix(texts)
    half = pc.mean(pc.binary_length(texts)).as_py() / 2
    room = settings.max_dictionary_bytes - len(prefix)
    if not max(_WORTHWHILE_PREFIX, half) <= len(prefix) < MAX_LOCATION_BYTES or room <= 0:
        return None
    trained = _train(texts, replace(settings, max_dictionary_bytes=room))
    if trained is None:
        return None
    template = FrameTemplate(trained.dict_id().to_bytes(4, "little"), len(prefix))
    return trained.as_bytes() + prefix, map(template.build, _blocks(texts))


def _compress_each(texts: pa.ChunkedArray, settings: LocationCompression) -> _Compressed | None:
    """Let zstd compress each location; None where that makes them no smaller."""
    dictionary = _train(texts, settings)
    if dictionary is None:
        return None
    level = min(settings.level, zstandard.MAX_COMPRESSION_LEVEL)
    dictionary.precompute_compress(level=level)
    compressor = zstandard.ZstdCompressor(level=level, dict_data=dictionary)
    samples = _sample(texts, settings.max_training_samples)
    if sum(len(compressor.compress(sample)) - len(sample) for sample in samples) >= 0:
        return None
    frames = (
        pa.array([compressor.compress(text) for text in block.to_pylist()], pa.large_binary())
        for block in _blocks(texts.cast(pa.large_binary()))
    )
    return dictionary.as_bytes(), frames


def _blocks(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in texts.chunks:
        for start in range(0, len(chunk), BLOCK_ROWS):
            yield chunk.slice(start, BLOCK_ROWS)


def _train(
    texts: pa.ChunkedArray, settings: LocationCompression
) -> zstandard.ZstdCompressionDict | None:
    samples = _sample(texts, settings.max_training_samples)
    if 2 * sum(len(sample) < _SHORT_SAMPLE for sample in samples) >= len(samples):
        return None
    total = sum(len(sample) for sample in samples)
    if total < settings.max_dictionary_bytes:
        # too little to train on: weigh what there is more heavily
        samples *= settings.max_dictionary_bytes // total + 2
    try:
        return zstandard.train_dictionary(settings.max_dictionary_bytes, samples)
    except zstandard.ZstdError:
        return None


def _sample(texts: pa.ChunkedArray, most: int) -> list[bytes | bytearray | memoryview]:
    """Return up to `most` texts, spread evenly: the same input gives the same dictionary."""
    rows = np.unique(np.linspace(0, len(texts) - 1, min(most, len(texts))).astype(np.int64))
    # one by one, because `take` would join the chunks first
    return [texts[row].as_py().encode() for row in rows.tolist()]


class LocationExpander:
    """Expands the compressed locations of one manifest."""

    def __init__(self, flat: FlatColumns, dictionary: bytes | None) -> None:
        self._flat = flat
        self._dictionary = dictionary
        self._decompressor: zstandard.ZstdDecompressor | None = None
        self._may_be_alike = True

    def expand(self, frames: pa.Array) -> pa.Array:
        """Return the locations that these frames hold, one each."""
        frames = frames.cast(pa.large_binary())
        try:
            expanded = self._expand_alike(frames) if self._may_be_alike else None
            if expanded is None:
                self._may_be_alike = False  # one writer made all of a manifest: trying costs time
                expanded = self._expand_any(frames)
        except zstandard.ZstdError as error:
            raise self._flat.wrong(
                f"has a compressed location that is damaged ({error})"
            ) from error
        return as_texts(self._flat, expanded)

    def _open(self) -> zstandard.ZstdDecompressor:
        if self._decompressor is None:
            if self._dictionary is None:
                raise self._flat.wrong("has compressed locations but no dictionary for them")
            dictionary = zstandard.ZstdCompressionDict(self._dictionary)
            self._decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
        return self._decompressor

    def _expand_alike(self, frames: pa.Array) -> pa.Array | None:
        """Expand frames that were made with a template; None if they were not."""
        first = frames[0].as_py()
        template = FrameTemplate.of_frame(first)
        if template is None:
            return None
        prefix = self._expand_one(first)[: template.prefix_size]
        expanded = template.expand(frames, prefix)
        if expanded is not None:
            self._flat.charge(pc.sum(pc.binary_length(expanded)).as_py())
        return expanded

    def _expand_any(self, frames: pa.Array) -> pa.Array:
        sizes = _content_sizes(frames)
        if sizes is None:
            return self._expand_singly(frames)
        return self._expand_together(frames, sizes)

    def _expand_together(self, frames: pa.Array, sizes: Int64) -> pa.Array:
        """Decompress frames of known size as one stream."""
        total = int(sizes.sum())
        self._flat.charge(total)
        expanded = bytearray(total)
        starts, data = _parts(frames)
        with self._open().stream_reader(
            memoryview(data)[starts[0] : starts[-1]], read_across_frames=True
        ) as reader:
            filled = _read_into(reader, expanded)
            if filled != total or reader.read(1):
                raise self._flat.wrong("has a compressed location that does not have its size")
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(expanded)]
        return pa.Array.from_buffers(pa.large_binary(), len(frames), buffers)

    def _expand_singly(self, frames: pa.Array) -> pa.Array:
        """Decompress frames that do not declare their size, or are built in another way."""
        texts = [self._expand_one(frame) for frame in frames.to_pylist()]
        return pa.array(texts, pa.large_binary())

    def _expand_one(self, frame: bytes) -> bytes:
        if not frame.startswith(_MAGIC):
            raise self._flat.wrong("has a compressed location that is damaged (no zstd frame)")
        size = zstandard.get_frame_parameters(frame).content_size
        if size > MAX_LOCATION_BYTES and size != zstandard.CONTENTSIZE_UNKNOWN:
            raise self._flat.wrong(f"has a compressed location of {size} bytes")
        self._flat.charge(MAX_LOCATION_BYTES)
        return self._open().decompress(
            frame, max_output_size=MAX_LOCATION_BYTES, allow_extra_data=False
        )


def _read_into(reader: zstandard.ZstdDecompressionReader, target: bytearray) -> int:
    view, filled = memoryview(target), 0
    while filled < len(target):
        count = reader.readinto(view[filled:])
        if not count:
            break
        filled += count
    return filled


def _parts(values: pa.Array) -> tuple[Int64, npt.NDArray[np.uint8]]:
    """Return where each value of a large_binary array starts, and where the last ends."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return starts, np.frombuffer(data or b"", np.uint8)


def _content_sizes(frames: pa.Array) -> Int64 | None:
    """Return what frames of one block hold; None if one is built otherwise (RFC 8878, 3.1.1)."""
    bounds, data = _parts(frames)
    starts, lengths = bounds[:-1], np.diff(bounds)
    if int(lengths.min()) < _MIN_FRAME:
        return None
    descriptor = data[starts + 4]
    size_bytes = np.where(descriptor >> 6, 2, descriptor >> 5 & 1)
    size_at = starts + 5 + (~descriptor >> 5 & 1) + _DICTIONARY_ID_BYTES[descriptor & 3]
    block_at = size_at + size_bytes
    if bool((block_at + 3 > bounds[1:]).any()) or not _are_plain(data, starts, descriptor):
        return None
    sizes = data[size_at] + np.where(
        size_bytes > 1, (data[size_at + 1].astype(np.int64) << 8) + 256, 0
    )
    header = (
        data[block_at]
        + (data[block_at + 1].astype(np.int64) << 8)
        + (data[block_at + 2].astype(np.int64) << 16)
    )
    is_repeated = (header >> 1 & 3) == 1
    ends = block_at + 3 + np.where(is_repeated, 1, header >> 3)
    fits = (header & 1 == 1) & (ends == bounds[1:]) & (sizes <= MAX_LOCATION_BYTES)
    return sizes if fits.all() else None


def _are_plain(
    data: npt.NDArray[np.uint8], starts: Int64, descriptor: npt.NDArray[np.uint8]
) -> bool:
    """Tell whether frames have the magic number, a size of 1 or 2 bytes and no checksum."""
    magic = all(bool((data[starts + i] == byte).all()) for i, byte in enumerate(_MAGIC))
    has_size = (descriptor >> 6 == 1) | (descriptor >> 5 == 1)
    return magic and bool((has_size & (descriptor & _UNUSUAL == 0)).all())
