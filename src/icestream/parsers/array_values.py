"""Values of scanned arrays, read through their references and decoded by zarr."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import Buffer, cpu
from zarr.errors import UnstableSpecificationWarning, ZarrUserWarning
from zarr.storage import MemoryStore

from icestream.model.chunk_refs import InlineRef, VirtualRef
from icestream.parsers.scanned_files import ScannedArray
from icestream.parsers.source_files import SourceFile

type ChunkBytes = Mapping[tuple[int, ...], bytes]
"""Encoded chunks by index."""

type Region = tuple[slice, ...] | EllipsisType
"""A part of an array in elements; an ellipsis is all of it."""


def read_values(source: SourceFile, array: ScannedArray) -> npt.NDArray[Any]:
    """Return all values of an array, as they are stored: neither scaled nor masked.

    Raises:
        SourceError: The file was changed since it was opened.
        StorageError: A store fails.
    """
    return decode_chunks(array.metadata, dict(_chunks(source, array)))


def decode_chunks(
    metadata: Mapping[str, Any], chunks: ChunkBytes, region: Region = ...
) -> npt.NDArray[Any]:
    """Return values of an array, as they are stored; chunks that are not given are fill values.

    Args:
        metadata: The document zarr.json.
        chunks: Those of the region, at least.
        region: The part whose values are wanted.
    """
    content = {_key(index): _buffer(data) for index, data in chunks.items()}
    with _foreign_types():
        return np.asarray(_opened(metadata, content, mode="r")[region])


def encode_chunks(
    metadata: Mapping[str, Any], values: npt.NDArray[Any], region: Region = ...
) -> dict[tuple[int, ...], bytes]:
    """Return the chunks of a part of an array; those of fill values only are left out.

    Args:
        metadata: The document zarr.json.
        values: Of the part, as they are to be stored.
        region: The part, of whole chunks.
    """
    content: dict[str, Buffer] = {}
    with _foreign_types():
        _opened(metadata, content, mode="r+")[region] = values
    return {
        tuple(map(int, key.split("/")[1:])): data.to_bytes()
        for key, data in content.items()
        if key != _DOCUMENT
    }


@contextmanager
def _foreign_types() -> Iterator[None]:
    """Say nothing of codecs and types beyond the specification: foreign files have them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        warnings.simplefilter("ignore", ZarrUserWarning)
        yield


_DOCUMENT = "zarr.json"


def _opened(metadata: Mapping[str, Any], content: dict[str, Buffer], mode: Any) -> Any:
    """Return an array over the chunks in a dictionary, which keeps those that are written."""
    content[_DOCUMENT] = _buffer(json.dumps(metadata).encode())
    return zarr.open_array(MemoryStore(content, read_only=mode == "r"), mode=mode)


def _chunks(source: SourceFile, array: ScannedArray) -> Iterator[tuple[tuple[int, ...], bytes]]:
    table = array.references
    for row, index in enumerate(table.index.tolist()):
        ref = table.ref(row)
        if isinstance(ref, InlineRef):
            yield tuple(index), ref.data
        elif isinstance(ref, VirtualRef):
            start = ref.byte_offset
            yield tuple(index), source.read_from(ref.location, start, start + ref.length)


def _key(index: tuple[int, ...]) -> str:
    return "/".join(["c", *map(str, index)])


def _buffer(data: bytes) -> Buffer:
    return cpu.Buffer.from_bytes(data)
