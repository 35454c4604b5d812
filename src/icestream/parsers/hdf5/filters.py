"""HDF5 filters as Zarr codecs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from h5py import h5p, h5z

from icestream.errors import ErrorKind, SourceError
from icestream.parsers.hdf5.lzf_codec import CODEC_NAME as LZF

type Codec = dict[str, Any]
type FilterValues = tuple[int, ...]

_BZIP2 = 307
_LZF = 32000
_BLOSC = 32001
_LZ4 = 32004
_ZSTD = 32015
_NO_COMPRESSION_LEVEL = 3
_SZIP_VALUES = 4
_BLOSC_VALUES = 7
_BLOSC_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


def codecs_of(properties: h5p.PropDCID, skipped: int = 0) -> list[Codec]:
    """Return the codecs that undo the filters of a dataset, in the order of writing.

    Args:
        properties: How the dataset was created.
        skipped: One bit for each filter that its chunks went without.

    Raises:
        SourceError: No codec does what a filter does.
    """
    return list(_codecs(properties, skipped))


def _codecs(properties: h5p.PropDCID, skipped: int) -> Iterator[Codec]:
    for position in range(properties.get_nfilters()):
        number, _, values, name = properties.get_filter(position)
        if skipped >> position & 1:
            continue
        make = _CODECS.get(number)
        if make is None:
            label = name.decode(errors="replace") or _NAMES.get(number, "unknown")
            raise SourceError(
                f"its chunks went through the HDF5 filter {number} ({label}), which no Zarr codec "
                "undoes; copy the variable instead",
                kind=ErrorKind.UNIMPLEMENTED,
            )
        yield make(values)


def _deflate(values: FilterValues) -> Codec:
    level = values[0] if values else _NO_COMPRESSION_LEVEL
    return {"name": "numcodecs.zlib", "configuration": {"level": level}}


def _shuffle(values: FilterValues) -> Codec:
    return {"name": "numcodecs.shuffle", "configuration": {"elementsize": values[0]}}


def _fletcher32(_: FilterValues) -> Codec:
    return {"name": "numcodecs.fletcher32", "configuration": {}}


def _szip(values: FilterValues) -> Codec:
    names = ("options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline")
    configuration = dict(zip(names, values[:_SZIP_VALUES], strict=True))
    return {"name": "imagecodecs_szip", "configuration": configuration | {"header": True}}


def _bzip2(values: FilterValues) -> Codec:
    return {"name": "numcodecs.bz2", "configuration": {"level": values[0] if values else 9}}


def _lzf(_: FilterValues) -> Codec:
    return {"name": LZF}


def _lz4(_: FilterValues) -> Codec:
    return {"name": "imagecodecs_lz4h5"}


def _zstd(values: FilterValues) -> Codec:
    level = values[0] if values else _NO_COMPRESSION_LEVEL
    return {"name": "zstd", "configuration": {"level": level, "checksum": False}}


def _blosc(values: FilterValues) -> Codec:
    # its chunks say themselves how they were made: the codec needs none of this to read them
    settings = values if len(values) >= _BLOSC_VALUES else (0, 0, 0, 0, 5, 1, 0)
    level, shuffle, compressor = settings[4:_BLOSC_VALUES]
    configuration = {
        "cname": _BLOSC_COMPRESSORS[compressor],
        "clevel": level,
        "shuffle": shuffle,
        "blocksize": 0,
    }
    return {"name": "numcodecs.blosc", "configuration": configuration}


_CODECS: Mapping[int, Callable[[FilterValues], Codec]] = {
    h5z.FILTER_DEFLATE: _deflate,
    h5z.FILTER_SHUFFLE: _shuffle,
    h5z.FILTER_FLETCHER32: _fletcher32,
    h5z.FILTER_SZIP: _szip,
    _BZIP2: _bzip2,
    _LZF: _lzf,
    _BLOSC: _blosc,
    _LZ4: _lz4,
    _ZSTD: _zstd,
}

_NAMES: Mapping[int, str] = {
    h5z.FILTER_NBIT: "n-bit",
    h5z.FILTER_SCALEOFFSET: "scale-offset",
    32008: "bitshuffle",
    32013: "zfp",
    32026: "blosc2",
}
