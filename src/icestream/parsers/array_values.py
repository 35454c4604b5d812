"""Values of scanned arrays, read through their references and decoded by zarr."""

import json
import warnings
from collections.abc import Iterator
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


def read_values(source: SourceFile, array: ScannedArray) -> npt.NDArray[Any]:
    """Return all values of an array, as they are stored: neither scaled nor masked.

    Raises:
        SourceError: The file was changed since it was opened.
        StorageError: A store fails.
    """
    content: dict[str, Buffer] = {"zarr.json": _buffer(json.dumps(array.metadata).encode())}
    for key, data in _chunks(source, array):
        content[key] = _buffer(data)
    with warnings.catch_warnings():
        # codecs and types beyond the specification are what foreign files have
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        warnings.simplefilter("ignore", ZarrUserWarning)
        opened: Any = zarr.open_array(MemoryStore(content, read_only=True), mode="r")
        return np.asarray(opened[...])


def _chunks(source: SourceFile, array: ScannedArray) -> Iterator[tuple[str, bytes]]:
    table = array.references
    for row, index in enumerate(table.index.tolist()):
        key = "/".join(["c", *map(str, index)])
        ref = table.ref(row)
        if isinstance(ref, InlineRef):
            yield key, ref.data
        elif isinstance(ref, VirtualRef):
            start = ref.byte_offset
            yield key, source.read_from(ref.location, start, start + ref.length)


def _buffer(data: bytes) -> Buffer:
    return cpu.Buffer.from_bytes(data)
