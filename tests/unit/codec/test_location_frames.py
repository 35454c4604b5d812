"""Frames of locations that begin alike: zstd reads those made here, and agrees on what is read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from tests.foreign_manifests import NODE, file_of, manifest_body

from icestream.codec.location_frames import (
    MAX_LOCATION_BYTES,
    MIN_PREFIX_BYTES,
    FrameTemplate,
    common_prefix,
)
from icestream.codec.manifests import decode_manifest
from icestream.errors import FormatError
from icestream.model.ids import NodeId

TRAINED = zstandard.train_dictionary(1024, [b"s3://bucket/file-%d.nc" % i for i in range(300)])
ID = TRAINED.dict_id().to_bytes(4, "little")
PREFIX = "s3://bucket/a/folder/with/a/long/name/"


def dictionary_for(prefix: str) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(TRAINED.as_bytes() + prefix.encode())


def build(texts: Sequence[str], prefix: str) -> list[bytes]:
    template = FrameTemplate(ID, len(prefix.encode()))
    frames: list[bytes] = template.build(pa.array(texts, pa.large_string())).to_pylist()
    return frames


def expand(frames: Sequence[bytes], prefix: str) -> list[bytes] | None:
    template = FrameTemplate(ID, len(prefix.encode()))
    expanded = template.expand(pa.array(frames, pa.large_binary()), prefix.encode())
    return None if expanded is None else expanded.to_pylist()


def decompress(frame: bytes, prefix: str) -> bytes:
    return zstandard.ZstdDecompressor(dict_data=dictionary_for(prefix)).decompress(frame)


def decode(frames: Sequence[bytes], prefix: str) -> Any:
    refs = [{"index": (i,), "compressed": f, "length": 1} for i, f in enumerate(frames)]
    body = manifest_body([(NODE, refs)], algorithm=1, dictionary=dictionary_for(prefix).as_bytes())
    table = decode_manifest(file_of(body), name="m").arrays[NodeId(NODE)]
    return table.location_column().to_pylist()


@pytest.mark.parametrize(
    ("texts", "prefix"),
    [
        (["s3://b/one"], "s3://b/one"),
        (["s3://b/one", "s3://b/two", "s3://b/three"], "s3://b/"),
        (["s3://b", "s3://b/one"], "s3://b"),
        (["a", "b"], ""),
        (["", "b"], ""),
    ],
)
def test_the_common_prefix_is_what_all_texts_begin_with(texts: list[str], prefix: str) -> None:
    halves = [pa.array(part, pa.large_string()) for part in (texts[:1], texts[1:])]

    assert common_prefix(pa.chunked_array(halves)) == prefix.encode()


def test_the_common_prefix_may_end_inside_a_character() -> None:
    texts = pa.chunked_array([pa.array(["s3://b/é", "s3://b/è"], pa.large_string())])

    assert common_prefix(texts) == b"s3://b/\xc3"


# beside the ends: where codes of match lengths change, and sizes take another byte
@pytest.mark.parametrize(
    "prefix_size",
    [MIN_PREFIX_BYTES, 34, 35, 36, 42, 43, 66, 67, 98, 99, 130, 131, 255, 258, 259, 514, 515, 1023],
)
def test_zstd_reads_the_frames(prefix_size: int) -> None:
    prefix = ("s3://bucket/" + "abcdefghij" * 102)[:prefix_size]
    sizes = [prefix_size + n for n in (0, 1, 31, 32, 200, 300)] + [255, 256, MAX_LOCATION_BYTES]
    fitting = [size for size in sizes if prefix_size <= size <= MAX_LOCATION_BYTES]
    texts = [(prefix + "xyz" * 400)[:size] for size in fitting]

    frames = build(texts, prefix)

    assert [decompress(frame, prefix).decode() for frame in frames] == texts
    for frame, text in zip(frames, texts, strict=True):
        assert FrameTemplate.of_frame(frame) == FrameTemplate(ID, prefix_size)
        assert expand([frame], prefix) == [text.encode()]


def test_frames_are_read_as_columns() -> None:
    texts = [f"{PREFIX}{i}.nc" for i in range(1000)]

    assert expand(build(texts, PREFIX), PREFIX) == [text.encode() for text in texts]


def test_short_and_long_locations_together_are_left_to_zstd() -> None:
    texts = [PREFIX + "x", PREFIX + "x" * 300]
    frames = build(texts, PREFIX)

    assert expand(frames, PREFIX) is None
    assert decode(frames, PREFIX) == texts


def test_frames_of_another_kind_are_left_to_zstd() -> None:
    texts = [f"{PREFIX}{i}.nc" for i in range(3)]
    compressor = zstandard.ZstdCompressor(dict_data=dictionary_for(PREFIX))
    own = compressor.compress(texts[1].encode())

    frames = build(texts, PREFIX)
    frames[1] = own

    assert expand(frames, PREFIX) is None
    assert decode(frames, PREFIX) == texts
    assert decode([own, *frames], PREFIX) == [texts[1], *texts]


@pytest.mark.parametrize("frame", [b"", b"\0" * 30, bytes.fromhex("28b52ffd23") + b"\xff" * 20])
def test_what_is_no_frame_has_no_template(frame: bytes) -> None:
    assert FrameTemplate.of_frame(frame) is None


@pytest.mark.parametrize("which", [0, 1])
def test_a_changed_byte_gives_what_zstd_makes_of_it_or_an_error(which: int) -> None:
    frames = build([PREFIX + "one.nc", PREFIX + "two.nc"], PREFIX)
    outcomes = set()
    for position in range(len(frames[which])):
        damaged = list(frames)
        changed = bytearray(frames[which])
        changed[position] ^= 1
        damaged[which] = bytes(changed)
        try:
            expected = [decompress(frame, PREFIX).decode() for frame in damaged]
        except (zstandard.ZstdError, UnicodeDecodeError):
            with pytest.raises(FormatError):
                decode(damaged, PREFIX)
            outcomes.add("refused")
        else:
            assert decode(damaged, PREFIX) == expected
            outcomes.add("read")

    assert outcomes == {"refused", "read"}
