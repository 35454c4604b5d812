"""Compressions and predictors of TIFF as Zarr codecs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tifffile import TiffPage

from icestream.errors import ErrorKind, SourceError
from icestream.parsers.array_documents import serializer_of

type Codec = dict[str, Any]

_ZLIB: Codec = {"name": "numcodecs.zlib", "configuration": {"level": 6}}
_COMPRESSIONS: Mapping[int, Sequence[Codec]] = {
    1: (),
    5: ({"name": "imagecodecs_lzw"},),
    8: (_ZLIB,),
    32946: (_ZLIB,),
    32773: ({"name": "imagecodecs_packbits"},),
    50000: ({"name": "zstd", "configuration": {"level": 3, "checksum": False}},),
}
_WHOLE_SAMPLES = frozenset({8, 16, 32, 64})


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the chunks of an image are encoded."""

    filters: Sequence[Codec]
    """What is done to values before they are bytes."""
    serializer: Codec
    codecs: Sequence[Codec]


def encoding_of(page: TiffPage, dtype: np.dtype[Any]) -> Encoding:
    """Return the codecs of an image.

    Raises:
        SourceError: No codec does what its compression or its layout of samples does.
    """
    if page.compression not in _COMPRESSIONS:
        name = getattr(page.compression, "name", page.compression)
        raise _inexpressible(f"its compression is {name}")
    if page.bitspersample not in _WHOLE_SAMPLES or page.fillorder != 1:
        raise _inexpressible(f"its samples have {page.bitspersample} bits, packed into bytes")
    if page.is_subsampled:
        raise _inexpressible("its colours are sampled more coarsely than its brightness")
    codecs = _COMPRESSIONS[int(page.compression)]
    # differences are taken between neighbours in a row: of equal samples, where they are mixed
    axis = {"axis": -2 if page.axes.endswith("XS") else -1}
    match page.predictor:
        case 1:
            return Encoding((), serializer_of(dtype), codecs)
        case 2:
            delta = {"name": "imagecodecs_delta", "configuration": {**axis, "dist": 1}}
            return Encoding((delta,), serializer_of(dtype), codecs)
        case 3:
            floats = {"name": "imagecodecs_floatpred", "configuration": {**axis, "dist": 1}}
            return Encoding((), floats, codecs)
        case _:
            raise _inexpressible(f"its predictor is {page.predictor}")


def _inexpressible(what: str) -> SourceError:
    return SourceError(
        f"{what}, which no Zarr codec undoes; copy the image instead", kind=ErrorKind.UNIMPLEMENTED
    )
