"""The Zarr codec for chunks that h5py's LZF filter made; zarr finds it when icestream is installed.

Such chunks do not say how long they are when decompressed. The shape of the array does.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import NoReturn, Self

import imagecodecs
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON
from zarr.registry import register_codec

from icestream.errors import ErrorKind, FormatError

CODEC_NAME = "icestream.lzf"


@dataclass(frozen=True)
class LzfCodec(BytesBytesCodec):
    """Compresses bytes with LZF, without a header."""

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec; it has no settings."""
        del data
        return cls()

    def to_dict(self) -> dict[str, JSON]:
        """Return how metadata names the codec."""
        return {"name": CODEC_NAME}

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        size = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize
        try:
            data = imagecodecs.lzf_decode(chunk_data.to_bytes(), header=False, out=size)
        except (RuntimeError, ValueError) as error:
            raise FormatError(
                f"a chunk cannot be decompressed with LZF: {error}", kind=ErrorKind.DESERIALIZATION
            ) from error
        return chunk_spec.prototype.buffer.from_bytes(bytes(data))

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        compressed = imagecodecs.lzf_encode(chunk_data.to_bytes(), header=False)
        return chunk_spec.prototype.buffer.from_bytes(bytes(compressed))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> NoReturn:
        """Refuse: compressed chunks have no fixed size."""
        raise NotImplementedError


register_codec(CODEC_NAME, LzfCodec)
