"""Groups and arrays as values, and what their zarr.json says about the chunk grid."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.ids import ManifestId, NodeId

Extents = tuple[tuple[int, int], ...]
"""One half-open range of chunk indexes per dimension."""

_MANY_MANIFESTS = 8
"""From so many on, comparing with all of them at once is faster than one after the other."""
_NO_CHUNK_BEYOND = 2**32


@dataclass(frozen=True, slots=True)
class ManifestRef:
    """A manifest that holds chunk references of an array, and the box they lie in."""

    manifest_id: ManifestId
    extents: Extents

    def covers(self, index: Sequence[int]) -> bool:
        """Tell whether the chunk `index` may be in this manifest; no extents cover everything."""
        for i, (lo, hi) in zip(index, self.extents, strict=False):  # noqa: SIM110 - once per chunk
            if not lo <= i < hi:
                return False
        return True


@dataclass(frozen=True, slots=True)
class DimensionShape:
    """The length of one dimension, in elements and in chunks."""

    array_length: int
    num_chunks: int
    chunk_length: int | None = None
    """Elements per chunk; None where the grid is not regular or the file does not say."""


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A group of a snapshot."""

    id: NodeId
    path: str
    user_data: bytes
    """The bytes of zarr.json, verbatim."""


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """An array of a snapshot."""

    id: NodeId
    path: str
    user_data: bytes
    """The bytes of zarr.json, verbatim."""
    shape: tuple[DimensionShape, ...]
    dimension_names: tuple[str | None, ...] | None = None
    manifests: tuple[ManifestRef, ...] = ()
    _bounds: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """Made when first needed: where the box of each manifest starts and ends, (n, rank)."""

    def manifests_with(self, index: Sequence[int]) -> Iterable[ManifestRef]:
        """Return the manifests that may hold the chunk `index`."""
        if len(self.manifests) < _MANY_MANIFESTS:
            return [ref for ref in self.manifests if ref.covers(index)]
        if not self._bounds:
            self._bounds.append(_bounds_of(self.manifests, len(self.shape)))
        low, high = self._bounds[0]
        covering = ((low <= index) & (high > index)).all(axis=1)
        return (self.manifests[i] for i in np.flatnonzero(covering))

    @property
    def num_chunks(self) -> tuple[int, ...]:
        """Chunks per dimension."""
        return tuple(d.num_chunks for d in self.shape)

    def has_chunk(self, index: Sequence[int]) -> bool:
        """Tell whether `index` lies in the chunk grid."""
        if len(index) != len(self.shape):
            return False
        for i, d in zip(index, self.shape, strict=True):  # noqa: SIM110 - once per chunk read
            if not 0 <= i < d.num_chunks:
                return False
        return True


Node = GroupNode | ArrayNode


def _bounds_of(
    refs: Sequence[ManifestRef], rank: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    everywhere = ((0, _NO_CHUNK_BEYOND),) * rank
    boxes = np.array([ref.extents or everywhere for ref in refs], np.int64)
    return boxes[:, :, 0], boxes[:, :, 1]


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """What the repository needs to know from an array's zarr.json."""

    shape: tuple[DimensionShape, ...]
    dimension_names: tuple[str | None, ...] | None


def parse_node_metadata(user_data: bytes, path: str) -> ArrayMetadata | None:
    """Return the array metadata in a zarr.json document, or None for a group.

    Raises:
        InvalidInputError: It is not Zarr 3 metadata, or its grid or key encoding cannot be stored.
    """
    try:
        document = json.loads(user_data)
    except ValueError as error:
        raise _bad_metadata(path, f"not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("zarr_format") != 3:  # noqa: PLR2004  the Zarr version
        raise _bad_metadata(path, "not Zarr version 3 metadata")
    match document.get("node_type"):
        case "group":
            return None
        case "array":
            return _array_metadata(document, path)
        case other:
            raise _bad_metadata(path, f"node_type is {other!r}, not 'array' or 'group'")


def _array_metadata(document: dict[str, Any], path: str) -> ArrayMetadata:
    lengths = document.get("shape")
    if not _is_list_of_lengths(lengths):
        raise _bad_metadata(path, "shape is not a list of non-negative integers")
    _check_key_encoding(document.get("chunk_key_encoding"), path)
    shape = _dimension_shapes(document.get("chunk_grid"), lengths, path)
    return ArrayMetadata(shape, _dimension_names(document.get("dimension_names"), shape, path))


def _dimension_shapes(grid: Any, lengths: list[int], path: str) -> tuple[DimensionShape, ...]:
    name = grid.get("name") if isinstance(grid, dict) else None
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    if not isinstance(configuration, dict):
        raise _bad_metadata(path, "chunk_grid has no name and configuration")
    if name == "regular":
        return _regular_grid(configuration.get("chunk_shape"), lengths, path)
    if name == "rectilinear":
        return _rectilinear_grid(configuration.get("chunk_shapes"), lengths, path)
    raise _bad_metadata(path, f"chunk grid {name!r} is neither 'regular' nor 'rectilinear'")


def _regular_grid(chunk_shape: Any, lengths: list[int], path: str) -> tuple[DimensionShape, ...]:
    if not _is_list_of_lengths(chunk_shape) or len(chunk_shape) != len(lengths):
        raise _bad_metadata(path, "chunk_shape is not one length per dimension")
    if any(chunk == 0 and length for chunk, length in zip(chunk_shape, lengths, strict=True)):
        raise _bad_metadata(path, "a chunk length is 0 although its dimension is not empty")
    return tuple(
        DimensionShape(length, -(-length // chunk) if chunk else 0, chunk)
        for length, chunk in zip(lengths, chunk_shape, strict=True)
    )


def _rectilinear_grid(
    chunk_shapes: Any, lengths: list[int], path: str
) -> tuple[DimensionShape, ...]:
    if not isinstance(chunk_shapes, list) or len(chunk_shapes) != len(lengths):
        raise _bad_metadata(path, "chunk_shapes is not one entry per dimension")
    return tuple(
        DimensionShape(length, _count_edges(edges, length, path))
        for length, edges in zip(lengths, chunk_shapes, strict=True)
    )


def _count_edges(edges: Any, length: int, path: str) -> int:
    """Count the chunks of one rectilinear dimension: a length, or lengths with run counts."""
    if isinstance(edges, int) and edges > 0:
        return -(-length // edges)
    if not isinstance(edges, list):
        raise _bad_metadata(path, f"rectilinear chunk lengths {edges!r} are not a list")
    count = 0
    for edge in edges:
        if isinstance(edge, list) and len(edge) == 2 and all(isinstance(e, int) for e in edge):  # noqa: PLR2004  [length, repeat]
            count += edge[1]
        elif isinstance(edge, int):
            count += 1
        else:
            raise _bad_metadata(path, f"rectilinear chunk length {edge!r} is not an integer")
    return count


def _dimension_names(
    names: Any, shape: tuple[DimensionShape, ...], path: str
) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != len(shape):
        raise _bad_metadata(path, "dimension_names is not one name per dimension")
    return tuple(name or None for name in names)


def _check_key_encoding(encoding: Any, path: str) -> None:
    """Refuse chunk keys other than `c/0/0`: the format has no room for them."""
    if encoding is None:
        return
    name = encoding.get("name") if isinstance(encoding, dict) else encoding
    configuration = encoding.get("configuration") or {} if isinstance(encoding, dict) else {}
    if name != "default" or configuration.get("separator", "/") != "/":
        raise _bad_metadata(path, "chunk_key_encoding must be 'default' with separator '/'")


def _is_list_of_lengths(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value
    )


def _bad_metadata(path: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"zarr.json of {path}: {reason}", kind=ErrorKind.BAD_METADATA)


def bounding_box(index: np.ndarray) -> Extents:
    """Return the smallest box that holds all rows of a chunk index matrix."""
    if not len(index):
        return tuple((0, 0) for _ in range(index.shape[1]))
    # column by column: a reduction along axis 0 of so narrow a matrix is 20 times slower
    return tuple((int(column.min()), int(column.max()) + 1) for column in index.T)
