"""Chunks of an array that are others in one version than in another."""

import json
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import NotFoundError
from icestream.model.chunk_tables import ChunkTable, UInt32, concat
from icestream.model.ids import ManifestId
from icestream.model.nodes import ArrayNode
from icestream.model.paths import absolute
from icestream.repository.session import Session

_NUMBER_COLUMNS = ("byte_offset", "length", "last_modified", "chunk_id")
_MEANING = ("data_type", "chunk_grid", "codecs", "fill_value", "dimension_names")
_DECODING = (
    *("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units"),
    "calendar",
)


def is_unchanged(before: Session, after: Session, path: str) -> bool:
    """Tell whether an array has the same values in two versions.

    Raises:
        NotFoundError: The later version does not have the array.
    """
    is_same = is_same_array(before, after, path, but_for=None)
    return is_same and not len(changed_chunks(before, after, path))


def is_same_array(before: Session, after: Session, path: str, *, but_for: int | None) -> bool:
    """Tell whether an array is the same in two versions but for chunks, and maybe a dimension."""
    try:
        old = _node(before, path)
    except NotFoundError:
        return False
    new = _node(after, path)
    return old.id == new.id and _meaning(old, but_for) == _meaning(new, but_for)


def changed_chunks(before: Session, after: Session, path: str) -> UInt32:
    """Return the chunks of an array that were set, replaced or deleted between two versions.

    Manifests that both versions have are not read.
    """
    old, new = _node(before, path), _node(after, path)
    shared = {ref.manifest_id for ref in old.manifests} & {ref.manifest_id for ref in new.manifests}
    left = _table(before, old, shared)
    right = _table(after, new, shared)
    rows = left.find_many(right.index)
    appeared = right.index[rows < 0]
    kept = rows >= 0
    differs = _differs(left.take(rows[kept]), right.take(kept))
    vanished = left.index[right.find_many(left.index) < 0]
    return np.concatenate([appeared, right.index[kept][differs], vanished])


def _node(session: Session, path: str) -> ArrayNode:
    return session._copy.get_array(absolute(path))  # noqa: SLF001  sessions show arrays as zarr only


def _meaning(node: ArrayNode, but_for: int | None) -> list[Any]:
    """Return what decides which values a chunk stands for."""
    document: dict[str, Any] = json.loads(node.user_data)
    attributes = document.get("attributes", {})
    return [
        [size for number, size in enumerate(document["shape"]) if number != but_for],
        [document.get(key) for key in _MEANING],
        [attributes.get(key) for key in _DECODING],
    ]


def _table(session: Session, node: ArrayNode, shared: AbstractSet[ManifestId]) -> ChunkTable:
    assets = session._copy.context.assets  # noqa: SLF001  sessions give whole tables only
    own = [ref.manifest_id for ref in node.manifests if ref.manifest_id not in shared]
    loaded = [assets.load_manifest(manifest_id).arrays.get(node.id) for manifest_id in own]
    tables = [table.within(node.num_chunks) for table in loaded if table is not None]
    return concat(tables or [ChunkTable.empty(len(node.shape))])


def _differs(left: ChunkTable, right: ChunkTable) -> npt.NDArray[np.bool_]:
    """Tell for each of equally many chunks whether two references to it differ."""
    differs: npt.NDArray[np.bool_] = np.not_equal(left.kind, right.kind)
    for name in _NUMBER_COLUMNS:
        one, other = _numbers(left, name), _numbers(right, name)
        differs |= (one != other).any(axis=1)
    for one, other in (
        (left.location_column(), right.location_column()),
        (left.etag_column(), right.etag_column()),
        (_inline(left), _inline(right)),
    ):
        differs |= ~pc.fill_null(pc.equal(one, other), False).to_numpy() & ~_both_null(one, other)  # noqa: FBT003  of Arrow
    return differs


def _numbers(table: ChunkTable, name: str) -> npt.NDArray[Any]:
    """Return a column of one or more numbers per row; zeros, if the table has none."""
    column: npt.NDArray[Any] | None = getattr(table, name)
    if column is None:
        return np.zeros((len(table), 1), np.uint8)
    return column if column.ndim > 1 else column[:, None]


def _inline(table: ChunkTable) -> pa.ChunkedArray:
    column = pa.nulls(len(table), pa.large_binary()) if table.inline is None else table.inline
    return pa.chunked_array([column])


def _both_null(one: pa.ChunkedArray, other: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = one.is_null().to_numpy() & other.is_null().to_numpy()
    return found
