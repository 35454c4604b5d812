"""The Zarr codec whose chunks are GRIB messages; zarr finds it when icestream is installed."""

import asyncio
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from eccodes import CodesInternalError
from zarr.abc.codec import ArrayBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.common import JSON
from zarr.registry import register_codec

from icestream.errors import ErrorKind, FormatError, SessionStateError
from icestream.parsers.grib.fields import decode_message

CODEC_NAME = "icestream.grib"


@dataclass(frozen=True)
class GribCodec(ArrayBytesCodec):
    """Makes values of GRIB messages. It does not write any."""

    is_fixed_size = False

    field: int | None = None
    """Which of the fields of each message, where they have many."""

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec that metadata names."""
        configuration: Any = data.get("configuration") or {}
        return cls(configuration.get("field"))

    def to_dict(self) -> dict[str, JSON]:
        """Return how metadata names the codec."""
        if self.field is None:
            return {"name": CODEC_NAME}
        return {"name": CODEC_NAME, "configuration": {"field": self.field}}

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        try:
            values = decode_message(chunk_data.to_bytes(), self.field)
        except CodesInternalError as error:
            raise FormatError(
                f"a GRIB message cannot be decoded: {error}", kind=ErrorKind.DESERIALIZATION
            ) from error
        dtype = chunk_spec.dtype.to_native_dtype()
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(
            values.astype(dtype, copy=False).reshape(chunk_spec.shape)
        )

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NoReturn:
        del chunk_data, chunk_spec
        raise SessionStateError(
            "chunks of this array are GRIB messages, which are only read; write to another array",
            kind=ErrorKind.UNIMPLEMENTED,
        )

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> NoReturn:
        """Refuse: messages have no fixed size."""
        raise NotImplementedError


register_codec(CODEC_NAME, GribCodec)
