"""Snapshots: one immutable version of the hierarchy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icestream.errors import ErrorKind, InvalidInputError, NodeNotFoundError
from icestream.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, SnapshotId
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ArrayNode, GroupNode, Node

INITIAL_MESSAGE = "Repository initialized"
RESERVED_KEY = "__icechunk"
"""The metadata key under which the format keeps notes of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The content of one snapshot file."""

    id: SnapshotId
    flushed_at: int
    """Microseconds since the epoch."""
    message: str
    parent_id: SnapshotId | None = None
    """Set in spec 1 only; spec 2 keeps the history in the repo info."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Path to node, ordered by the UTF-8 bytes of the path."""
    manifest_files: Mapping[ManifestId, ManifestFile] = field(default_factory=dict)
    """Every manifest that an array of this snapshot refers to, ordered by id."""
    extra: bytes | None = None
    """What a later version of the format may store here; carried untouched."""

    def get_node(self, path: str) -> Node:
        """Return the node at `path`.

        Raises:
            NodeNotFoundError: There is none.
        """
        node = self.nodes.get(path)
        if node is None:
            raise NodeNotFoundError(f"there is no group or array at {path}")
        return node

    def get_array(self, path: str) -> ArrayNode:
        """Return the array at `path`.

        Raises:
            NodeNotFoundError: There is nothing.
            InvalidInputError: There is a group.
        """
        return expect_array(self.get_node(path))


def expect_array(node: Node) -> ArrayNode:
    """Return the node if it is an array."""
    if isinstance(node, GroupNode):
        raise InvalidInputError(
            f"{node.path} is a group, not an array", kind=ErrorKind.NOT_AN_ARRAY
        )
    return node


def initial_snapshot(flushed_at: int) -> Snapshot:
    """Return the empty snapshot that every history starts with."""
    return Snapshot(
        id=INITIAL_SNAPSHOT_ID,
        flushed_at=flushed_at,
        message=INITIAL_MESSAGE,
        metadata={RESERVED_KEY: {"is_root": True}},
    )
