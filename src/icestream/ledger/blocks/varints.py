"""Unsigned numbers of the multiformats: seven bits per byte, the lowest first."""

from icestream.errors import InvalidInputError

_MAX_BYTES = 9


def encode_varint(number: int) -> bytes:
    """Return the shortest form of a number."""
    encoded = bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def decode_varint(data: bytes) -> tuple[int, bytes]:
    """Return the number that `data` starts with, and the bytes behind it.

    Raises:
        InvalidInputError: There is no number in its shortest form.
    """
    number = 0
    for index, byte in enumerate(data[:_MAX_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:  # noqa: PLR2004  no byte follows
            if byte == 0 and index > 0:
                break
            return number, data[index + 1 :]
    raise InvalidInputError(f"{data[:_MAX_BYTES].hex()!r} does not start with a number")
