"""The metadata of virtual variables: as it is stored, and how it agrees with what is there."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from virtualizarr.manifests import ManifestArray
from xarray import Variable
from xarray.backends.zarr import FillValueCoder, encode_zarr_attr_value
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.chunk_key_encodings import DefaultChunkKeyEncoding
from zarr.core.metadata.v3 import ArrayV3Metadata

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.nodes import ArrayNode

_DECODING = ("_FillValue", "missing_value", "scale_factor", "add_offset")
"""Attributes that xarray may keep in the encoding of a variable."""
_MEANING = (*_DECODING, "_Unsigned", "units", "calendar")
"""Attributes without which stored values mean something else."""
_FIELDS = {
    "data_type": "dtype",
    "chunk_grid": "chunk shape",
    "codecs": "codecs",
    "fill_value": "fill value",
    "dimension_names": "dimensions",
}
"""Fields of zarr.json that all chunks of an array share, and what people call them."""


def metadata_of(name: str, variable: Variable) -> ArrayV3Metadata:
    """Return the metadata of the array that a virtual variable becomes.

    Raises:
        InvalidInputError: An attribute cannot be stored, or the manifest is of another shape.
    """
    data: ManifestArray = variable.data
    metadata = replace(
        data.metadata,
        attributes=_attributes_of(name, variable),
        dimension_names=tuple(map(str, variable.dims)) or None,
        # parsers name chunks as their format does, and a repository has one way of its own
        chunk_key_encoding=DefaultChunkKeyEncoding(separator="/"),
    )
    grid = tuple(
        -(-length // chunk) if chunk else 0
        for length, chunk in zip(metadata.shape, chunk_shape(metadata), strict=True)
    )
    if data.manifest.shape_chunk_grid != grid and (all(grid) or len(data.manifest)):
        raise InvalidInputError(
            f"the variable {name!r} has a manifest of {data.manifest.shape_chunk_grid} chunks, and "
            f"its shape {metadata.shape} in chunks of {chunk_shape(metadata)} has {grid}",
            kind=ErrorKind.INVALID_ARRAY_METADATA,
        )
    return metadata


def stored_metadata(array: ArrayNode) -> ArrayV3Metadata:
    """Return the metadata of an array that is there."""
    return ArrayV3Metadata.from_dict(json.loads(array.user_data))


def chunk_shape(metadata: ArrayV3Metadata) -> tuple[int, ...]:
    """Return what one reference covers: a chunk, or a shard where chunks are in shards."""
    document: Any = metadata.to_dict()
    shape: tuple[int, ...] = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])
    return shape


def document_of(metadata: ArrayV3Metadata) -> Buffer:
    """Return metadata as the content of zarr.json."""
    document: Buffer = metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"]
    return document


def check_agreement(name: str, wanted: ArrayV3Metadata, stored: ArrayV3Metadata) -> None:
    """Refuse chunks that would be read wrongly as chunks of an array that is there.

    Raises:
        InvalidInputError: Something differs that all chunks of an array share; it is named.
    """
    given, found = _json(wanted), _json(stored)
    for field, called in _FIELDS.items():
        if given.get(field) != found.get(field):
            raise _disagreement(name, called, given.get(field), found.get(field))
    for key in _MEANING:
        new, old = given["attributes"].get(key), found["attributes"].get(key)
        if json.dumps(new) != json.dumps(old):  # NaN equals NaN as a text only
            raise _disagreement(name, f"attribute {key!r}", new, old)


def encoded_attributes(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return attributes as xarray stores them in zarr."""
    encode: Any = encode_zarr_attr_value  # without types
    return {str(key): encode(value) for key, value in attributes.items()}


def _attributes_of(name: str, variable: Variable) -> dict[str, Any]:
    kept = {key: variable.encoding[key] for key in _DECODING if key in variable.encoding}
    attributes = {**variable.attrs, **kept}
    fill_value = attributes.get("_FillValue")
    try:
        if fill_value is not None and not isinstance(fill_value, str | list):
            # a text or list is encoded already, by the parser
            plain = np.asarray(fill_value).item()
            attributes["_FillValue"] = FillValueCoder.encode(plain, variable.dtype)
        encoded = encoded_attributes(attributes)
        json.dumps(encoded)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the attributes of the variable {name!r} cannot be stored: {error}",
            kind=ErrorKind.BAD_METADATA,
        ) from error
    return encoded


def _json(metadata: ArrayV3Metadata) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(document_of(metadata).to_bytes())
    return {**document, "dimension_names": document.get("dimension_names") or []}


def _disagreement(name: str, what: str, given: object, found: object) -> InvalidInputError:
    return InvalidInputError(
        f"the variable {name!r} has another {what} than the array that is there: {given}, and "
        f"there {found}; load the variable to write its values (loadable_variables), or write it "
        "to another group",
        kind=ErrorKind.INVALID_ARRAY_METADATA,
    )
