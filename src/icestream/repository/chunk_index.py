"""Look-up of chunk references: uncommitted edits over the manifests of a snapshot."""

from collections.abc import Iterator

from icestream.assets.assets import Assets
from icestream.model.change_sets import ChangeSet
from icestream.model.chunk_tables import ChunkTable, concat, overlay
from icestream.model.nodes import ArrayNode
from icestream.zarr_store.protocol import FoundChunk


def find_chunk(
    assets: Assets, changes: ChangeSet, array: ArrayNode, index: tuple[int, ...]
) -> FoundChunk | None:
    """Return where one chunk is, or None if it was never written."""
    if not array.has_chunk(index):
        return None
    edits = changes.chunks.get(array.id)
    if edits is not None:
        edited, ref = edits.find(index)
        if edited:
            return None if ref is None else FoundChunk(ref)
    for manifest_ref in array.manifests_with(index):
        table = assets.load_manifest(manifest_ref.manifest_id).arrays.get(array.id)
        row = table.find(index) if table is not None else -1
        if table is not None and row >= 0:
            ref = table.ref(row)
            return None if ref is None else FoundChunk(ref, table, row)
    return None


def committed_tables(assets: Assets, array: ArrayNode) -> Iterator[ChunkTable]:
    """Yield the references that a snapshot holds of an array, one table per manifest."""
    for ref in array.manifests:
        table = assets.load_manifest(ref.manifest_id).arrays.get(array.id)
        if table is not None and len(table):
            yield table.within(array.num_chunks)


def committed_table(assets: Assets, array: ArrayNode) -> ChunkTable:
    """Return all references that a snapshot holds of an array."""
    return concat([*committed_tables(assets, array)] or [ChunkTable.empty(len(array.shape))])


def current_table(assets: Assets, changes: ChangeSet, array: ArrayNode) -> ChunkTable:
    """Return all references of an array, uncommitted edits included."""
    committed = committed_table(assets, array)
    edits = changes.chunks.get(array.id)
    if edits is None or not len(edits):
        return committed
    return overlay(committed, edits.table()).without_deletions().within(array.num_chunks)
