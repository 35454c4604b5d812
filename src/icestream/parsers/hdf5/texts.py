"""Datasets of texts of any length, which HDF5 keeps apart from their chunks: copied, not cited."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import Dataset, h5t
from numcodecs.vlen import VLenUTF8

from icestream.model.chunk_tables import ChunkTable
from icestream.parsers.file_references import inline_chunks
from icestream.parsers.hdf5.layouts import Layout, whole_shape
from icestream.parsers.plain_attributes import decoded_text


def is_text(dtype: np.dtype[Any]) -> bool:
    """Tell whether values are texts of any length."""
    return h5t.check_vlen_dtype(dtype) in {str, bytes}


def read_texts(dataset: Dataset) -> npt.NDArray[Any]:
    """Return the texts of a dataset, as Python objects."""
    values = np.asarray(dataset[()], object)
    texts = np.empty(values.shape, object)
    texts.reshape(-1)[:] = [_as_text(value) for value in values.reshape(-1)]
    return texts


def text_fill_value(dataset: Dataset) -> str:
    """Return the text that missing chunks are filled with."""
    return _as_text(dataset.fillvalue)


def text_layout(dataset: Dataset) -> Layout:
    """Return the texts of a dataset as inline chunks."""
    shape = dataset.shape
    chunk_shape = tuple(map(min, dataset.chunks or shape, whole_shape(shape)))
    chunk_shape = whole_shape(chunk_shape)
    if not math.prod(shape) or not dataset.id.get_storage_size():
        return Layout(chunk_shape, ChunkTable.empty(len(shape)))
    texts, fill_value = read_texts(dataset), text_fill_value(dataset)
    grid = tuple(-(-length // chunk) for length, chunk in zip(shape, chunk_shape, strict=True))
    codec = VLenUTF8()
    chunks = {}
    for index in np.ndindex(grid):
        part = texts[tuple(map(_slice, index, chunk_shape))]
        chunk = np.full(chunk_shape, fill_value, object)
        chunk[tuple(_slice(0, length) for length in part.shape)] = part
        chunks[index] = bytes(codec.encode(chunk))
    return Layout(chunk_shape, inline_chunks(chunks, len(shape)))


def _slice(number: int, length: int) -> slice:
    return slice(number * length, (number + 1) * length)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    return decoded_text(value) if isinstance(value, bytes) else ""
