"""The header of metadata files and the zstd frame behind it."""

import struct
import tracemalloc

import pytest
import zstandard

from icestream.codec.header import (
    HEADER_SIZE,
    MAGIC,
    FileType,
    decode_body,
    encode_file,
    encode_header,
)
from icestream.errors import ErrorKind, FormatError

BODY = b"some flatbuffer " * 20


def decode(data: bytes, *, limit: int = 2**32) -> tuple[int, bytes]:
    return decode_body(data, FileType.SNAPSHOT, name="snapshots/X", limit=limit)


def frame_of(
    body: bytes, *, with_size: bool = True, checksum: bool = False, level: int = 3
) -> bytes:
    compressor = zstandard.ZstdCompressor(
        level=level, write_content_size=with_size, write_checksum=checksum
    )
    return compressor.compress(body)


def file_of(frame: bytes) -> bytes:
    return encode_header(FileType.SNAPSHOT, 2) + frame


@pytest.mark.parametrize("file_type", FileType)
@pytest.mark.parametrize("spec", [1, 2])
def test_what_is_encoded_is_decoded(file_type: FileType, spec: int) -> None:
    data = encode_file(BODY, file_type, spec, level=3)

    assert decode_body(data, file_type, name="x") == (spec, BODY)


def test_the_header_has_the_bytes_of_the_specification() -> None:
    header = encode_header(FileType.MANIFEST, 2)

    assert header[:12].hex(" ") == "49 43 45 f0 9f a7 8a 43 48 55 4e 4b"
    assert header[12:36].decode().startswith("icestream")
    assert len(header[12:36].decode().split()) == 1
    assert header[36:] == bytes((2, 2, 1))
    assert len(header) == HEADER_SIZE


def test_a_file_of_icechunk_is_decoded_whoever_wrote_it() -> None:
    header = MAGIC + b"ic-2.3.0".ljust(24) + bytes((1, 1, 1))

    assert decode(header + frame_of(BODY)) == (1, BODY)
    assert decode(MAGIC + bytes(24) + bytes((1, 1, 1)) + frame_of(BODY)) == (1, BODY)


@pytest.mark.parametrize("level", [0, 1, 19, 22, 255])
def test_any_level_that_a_configuration_can_hold_is_written(level: int) -> None:
    assert decode(encode_file(BODY, FileType.SNAPSHOT, 2, level=level)) == (2, BODY)


@pytest.mark.parametrize("with_size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("body", [b"", b"x", BODY, bytes(300_000)])
def test_frames_with_and_without_size_and_checksum_are_read(
    body: bytes, *, with_size: bool, checksum: bool
) -> None:
    frame = frame_of(body, with_size=with_size, checksum=checksum)

    assert decode(file_of(frame)) == (2, body)


def test_a_streamed_frame_of_many_blocks_is_read() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    end_block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    frame = b"".join(compressor.compress(BODY) + compressor.flush(end_block) for _ in range(50))

    assert decode(file_of(frame + compressor.flush())) == (2, BODY * 50)


def test_a_large_body_that_compresses_to_almost_nothing_is_read() -> None:
    body = bytes(2**25 + 1)

    assert decode(file_of(frame_of(body))) == (2, body)


def test_trap_1_files_are_compressed_and_uncompressed_ones_are_refused() -> None:
    encoded = encode_file(BODY, FileType.SNAPSHOT, 2, level=3)
    uncompressed = encoded[:38] + b"\0" + BODY

    assert encoded[38] == 1
    with pytest.raises(FormatError, match=r"snapshots/X: has compression 0"):
        decode(uncompressed)


def test_trap_2_one_frame_is_written_with_its_size() -> None:
    frame = encode_file(BODY, FileType.SNAPSHOT, 2, level=3)[HEADER_SIZE:]
    reader = zstandard.ZstdDecompressor().decompressobj()

    assert zstandard.get_frame_parameters(frame).content_size == len(BODY)
    assert reader.decompress(frame) == BODY
    assert reader.unused_data == b""


@pytest.mark.parametrize("behind", [frame_of(BODY), b"x", b"\x50\x2a\x4d\x18\x00\x00\x00\x00"])
def test_trap_2_anything_behind_the_frame_is_refused(behind: bytes) -> None:
    with pytest.raises(FormatError, match=rf"found {len(behind)} bytes behind it"):
        decode(file_of(frame_of(BODY) + behind))


def test_a_newer_spec_version_asks_for_an_upgrade() -> None:
    data = bytearray(encode_file(BODY, FileType.SNAPSHOT, 2, level=3))
    data[36] = 3
    with pytest.raises(FormatError, match=r"spec version 3.*please upgrade") as error:
        decode(bytes(data))

    assert error.value.kind is ErrorKind.UNSUPPORTED_SPEC_VERSION


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has 0 bytes, too few"),
        (encode_header(FileType.SNAPSHOT, 2)[:-1], "has 38 bytes, too few"),
        (b"x" * 60, "does not start with the bytes that mark Icechunk files"),
        (encode_file(BODY, FileType.MANIFEST, 2, level=3), "is manifest, expected snapshot"),
        (MAGIC + bytes(24) + bytes((2, 5, 1)), "of unknown file type 5"),
        (encode_header(FileType.SNAPSHOT, 2), "damaged or cut short"),
        (file_of(b"no zstd frame at all"), "damaged or cut short"),
        (file_of(b"\x50\x2a\x4d\x18\x00\x00\x00\x00"), "damaged or cut short"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_reason(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=f"^snapshots/X: .*{message}"):
        decode(data)


@pytest.mark.parametrize("with_size", [True, False])
def test_a_frame_cut_anywhere_is_refused(*, with_size: bool) -> None:
    data = file_of(frame_of(BODY, with_size=with_size, checksum=True))
    for length in range(HEADER_SIZE, len(data)):
        with pytest.raises(FormatError, match="snapshots/X"):
            decode(data[:length])


def test_a_damaged_checksum_is_refused() -> None:
    data = file_of(frame_of(BODY, checksum=True))
    with pytest.raises(FormatError, match="damaged"):
        decode(data[:-1] + bytes((data[-1] ^ 1,)))


@pytest.mark.parametrize("with_size", [True, False])
def test_a_body_beyond_the_limit_is_refused_without_unpacking_it_all(*, with_size: bool) -> None:
    bomb = file_of(frame_of(bytes(2**28), with_size=with_size))
    tracemalloc.start()
    with pytest.raises(FormatError, match="limit of 1000000"):
        decode(bomb, limit=1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(bomb) < 100_000
    assert peak < 2**26


def test_a_frame_that_declares_more_than_it_can_hold_is_refused_before_allocating() -> None:
    content = b"tiny"
    lie = (
        b"\x28\xb5\x2f\xfd\xe0"  # one segment, size in eight bytes
        + struct.pack("<Q", 2**31)
        + struct.pack("<I", len(content) << 3 | 1)[:3]
        + content
    )
    tracemalloc.start()
    with pytest.raises(FormatError, match="declares 2147483648 bytes, it holds at most 4"):
        decode(file_of(lie))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2**20


def test_a_frame_that_asks_for_a_huge_window_is_refused() -> None:
    descriptor, two_gibibytes = 0x00, (31 - 10) << 3
    frame = b"\x28\xb5\x2f\xfd" + bytes((descriptor, two_gibibytes)) + b"\x01\x00\x00"
    with pytest.raises(FormatError, match="snapshots/X"):
        decode(file_of(frame))
