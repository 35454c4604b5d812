"""Moving nodes in the hierarchy."""

from dataclasses import replace

from icestream.errors import AlreadyExistsError, ErrorKind, NodeNotFoundError, SessionStateError
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode
from icestream.model.paths import ROOT, is_below, parent_of, rebase_path


def move(nodes: NodeView, from_path: str, to_path: str) -> None:
    """Move a node and everything below it; it keeps its id and its chunks."""
    _check_move(nodes, from_path, to_path)
    moved = [nodes.find(path) for path in [from_path, *nodes.paths_below(from_path)]]
    for node in moved:
        if node is not None:
            nodes.remove(node.path)
    for node in moved:
        if node is not None:
            nodes.put(replace(node, path=rebase_path(node.path, from_path, to_path)))


def _check_move(nodes: NodeView, from_path: str, to_path: str) -> None:
    if nodes.find(from_path) is None:
        raise NodeNotFoundError(f"there is no group or array at {from_path} to move")
    if from_path in {ROOT, to_path} or is_below(to_path, from_path):
        raise SessionStateError(
            f"{from_path} cannot be moved to {to_path}: into itself or below",
            kind=ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT,
        )
    if nodes.find(to_path) is not None:
        raise AlreadyExistsError(
            f"{to_path} exists; delete it first or choose another destination",
            kind=ErrorKind.MOVE_WONT_OVERWRITE,
        )
    parent = nodes.find(parent_of(to_path))
    if parent is None:
        raise SessionStateError(
            f"there is no group {parent_of(to_path)} to move {from_path} into; create it first",
            kind=ErrorKind.MOVE_DESTINATION_PARENT_MISSING,
        )
    if isinstance(parent, ArrayNode):
        raise SessionStateError(
            f"{parent.path} is an array and cannot hold {to_path}",
            kind=ErrorKind.MOVE_DESTINATION_PARENT_NOT_GROUP,
        )
