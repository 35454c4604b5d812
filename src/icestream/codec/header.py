"""The frame around every metadata file: 39 bytes of header, then one zstd frame."""

from enum import IntEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import zstandard

from icestream.errors import ErrorKind, FormatError

MAGIC = "ICE🧊CHUNK".encode()
HEADER_SIZE = 39
MAX_BODY_BYTES = 2**32
"""No reader of the format accepts flatbuffers beyond this size."""

_WRITER_SIZE = 24
_SPEC_AT = len(MAGIC) + _WRITER_SIZE
_SPECS = (1, 2)
_ZSTD = 1

_MAX_LEVEL = 22
_MAX_WINDOW_BYTES = 2**27
_MAX_BLOCK_BYTES = 2**17
_STEP_BYTES = 2**24
_PLAUSIBLE_RATIO = 64


class FileType(IntEnum):
    """The kinds of metadata files, as numbered by the format."""

    SNAPSHOT = 1
    MANIFEST = 2
    TRANSACTION_LOG = 4
    REPO_INFO = 6

    @property
    def label(self) -> str:
        """The kind in words."""
        return self.name.lower().replace("_", " ")


def encode_header(file_type: FileType, spec: int) -> bytes:
    """Return the header of a file of the given type and spec version."""
    return MAGIC + _writer_name() + bytes((spec, file_type, _ZSTD))


def encode_file(body: bytes, file_type: FileType, spec: int, *, level: int) -> bytes:
    """Return the file that holds `body`: a header and one zstd frame that declares its size."""
    # the format stores the level as any u8, and zstd takes what is too high as its highest
    compressor = zstandard.ZstdCompressor(level=min(level, _MAX_LEVEL), write_checksum=True)
    return encode_header(file_type, spec) + compressor.compress(body)


def decode_body(
    data: bytes, file_type: FileType, *, name: str, limit: int = MAX_BODY_BYTES
) -> tuple[int, bytes]:
    """Return the spec version and the decompressed body of a file.

    Args:
        data: The whole file.
        file_type: What the file must be.
        name: What to call the file in errors.
        limit: The largest body to decompress, in bytes.

    Raises:
        FormatError: The header is wrong, the file is of another type or of a newer spec, or
            there is not exactly one intact zstd frame behind the header.
    """
    spec = _check_header(data, file_type, name)
    return spec, _decompress(memoryview(data)[HEADER_SIZE:], name, limit)


@cache
def _writer_name() -> bytes:
    try:
        text = f"icestream-{version('icestream')}"
    except PackageNotFoundError:  # run from a source tree that is not installed
        text = "icestream"
    return text.encode()[:_WRITER_SIZE].ljust(_WRITER_SIZE)


def _check_header(data: bytes, file_type: FileType, name: str) -> int:
    if len(data) < HEADER_SIZE:
        raise _wrong(name, f"has {len(data)} bytes, too few for a header of {HEADER_SIZE}")
    if data[: len(MAGIC)] != MAGIC:
        raise _wrong(name, "does not start with the bytes that mark Icechunk files")
    spec, found_type, compression = data[_SPEC_AT:HEADER_SIZE]
    if spec not in _SPECS:
        raise FormatError(
            f"{name}: follows spec version {spec}, this package reads {_SPECS}; please upgrade",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    if found_type != file_type:
        raise _wrong(name, f"is {_type_label(found_type)}, expected {file_type.label}")
    if compression != _ZSTD:
        raise _wrong(name, f"has compression {compression}, only {_ZSTD} (zstd) can be read")
    return spec


def _type_label(file_type: int) -> str:
    try:
        return FileType(file_type).label
    except ValueError:
        return f"of unknown file type {file_type}"


def _decompress(frame: memoryview, name: str, limit: int) -> bytes:
    """Return the content of one frame, allocating little more than it really holds."""
    try:
        parameters = zstandard.get_frame_parameters(frame)
        frame_size, most = _measure_blocks(frame, has_checksum=parameters.has_checksum)
    except (zstandard.ZstdError, IndexError) as error:
        raise _wrong(name, f"its zstd frame is damaged or cut short ({error})") from error
    if frame_size != len(frame):
        raise _wrong(
            name, f"must be one zstd frame, found {len(frame) - frame_size} bytes behind it"
        )
    if parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN:
        return _inflate(frame, None, name, limit)
    if parameters.content_size > most:
        raise _wrong(name, f"declares {parameters.content_size} bytes, it holds at most {most}")
    return _inflate(frame, parameters.content_size, name, limit)


def _measure_blocks(frame: memoryview, *, has_checksum: bool) -> tuple[int, int]:
    """Return the size of the first frame and a bound of its content (RFC 8878, section 3.1.1)."""
    position, most, last = zstandard.frame_header_size(frame), 0, 0
    while not last:
        header = frame[position] | frame[position + 1] << 8 | frame[position + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        is_compressed, is_repeated = kind == 2, kind == 1  # noqa: PLR2004  numbers of the RFC
        most += _MAX_BLOCK_BYTES if is_compressed else size
        position += 3 + (1 if is_repeated else size)
    return position + 4 * has_checksum, most


def _inflate(frame: memoryview, declared: int | None, name: str, limit: int) -> bytes:
    if declared is not None and declared > limit:
        raise _wrong(name, f"holds {declared} bytes, more than the limit of {limit}")
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        if declared is not None and declared <= max(_STEP_BYTES, _PLAUSIBLE_RATIO * len(frame)):
            return decompressor.decompress(frame)
        return _inflate_in_steps(decompressor, frame, name, limit)
    except zstandard.ZstdError as error:
        raise _wrong(name, f"its zstd frame is damaged ({error})") from error


def _inflate_in_steps(
    decompressor: zstandard.ZstdDecompressor, frame: memoryview, name: str, limit: int
) -> bytes:
    pieces, total = [], 0
    with decompressor.stream_reader(frame) as reader:
        while piece := reader.read(_STEP_BYTES):
            pieces.append(piece)
            total += len(piece)
            if total > limit:
                raise _wrong(name, f"holds more than the limit of {limit} bytes")
    return b"".join(pieces)


def _wrong(name: str, what: str) -> FormatError:
    return FormatError(f"{name}: {what}")
