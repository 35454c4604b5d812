"""Bytes as text that names its own alphabet: the multibase forms that the fabric uses."""

import base64
import binascii

from icestream.errors import InvalidInputError

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LONGEST_TEXT = 512
"""No id or hash is longer; decoding base 58 takes quadratic time."""


def encode_base16(data: bytes) -> str:
    """Return lower-case hexadecimal digits behind an `f`."""
    return "f" + data.hex()


def encode_base58(data: bytes) -> str:
    """Return digits of the Bitcoin alphabet behind a `z`."""
    number = int.from_bytes(data)
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_BASE58[digit])
    n_zeros = len(data) - len(data.lstrip(b"\0"))
    return "z" + _BASE58[0] * n_zeros + "".join(reversed(digits))


def decode_multibase(text: str) -> bytes:
    """Return the bytes of base16 (`f`, `F`), base58btc (`z`) or unpadded base64url (`u`) text.

    Raises:
        InvalidInputError: The alphabet is another one, or the text does not follow it.
    """
    if len(text) > _LONGEST_TEXT:
        raise InvalidInputError(f"{text[:32]!r}...: {len(text)} characters are no hash or id")
    try:
        match text[:1]:
            case "f" | "F":
                return binascii.unhexlify(text[1:])
            case "z":
                return _decode_base58(text[1:])
            case "u":
                return _decode_base64url(text[1:])
            case _:
                raise ValueError("it starts with none of f, F, z, u")  # noqa: TRY301  see below
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is no multibase text: {error}") from error


def _decode_base58(digits: str) -> bytes:
    number = 0
    for digit in digits:
        number = number * 58 + _BASE58.index(digit)
    n_zeros = len(digits) - len(digits.lstrip(_BASE58[0]))
    return bytes(n_zeros) + number.to_bytes((number.bit_length() + 7) // 8)


def _decode_base64url(digits: str) -> bytes:
    if "=" in digits:
        raise ValueError("padding is not part of base64url here")
    # the standard alphabet would pass too if it were not looked for
    data = base64.b64decode(digits + "=" * (-len(digits) % 4), altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != digits:
        raise ValueError("it has bits that belong to no byte, or another alphabet")
    return data
