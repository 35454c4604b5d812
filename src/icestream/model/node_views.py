"""The nodes of a snapshot with uncommitted edits laid over them."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping

from icestream.model.nodes import Node
from icestream.model.paths import ROOT, parent_of

_AFTER_SLASH = chr(ord("/") + 1)


class NodeView:
    """Path to node: a snapshot's nodes, and edits that hide or add some.

    Paths are kept sorted by code point, which is the order of their UTF-8 bytes: the nodes below
    a group are then one contiguous run.
    """

    def __init__(
        self, base: Mapping[str, Node], edits: dict[str, Node | None] | None = None
    ) -> None:
        self.base = base
        self.edits: dict[str, Node | None] = edits if edits is not None else {}
        """Path to the node put there, or None where a node of the snapshot was removed."""
        self._sorted_paths: list[str] | None = None

    def find(self, path: str) -> Node | None:
        """Return the node at `path`, or None."""
        return self.edits[path] if path in self.edits else self.base.get(path)

    def put(self, node: Node) -> None:
        """Add a node, or replace the one at its path."""
        is_new = self.find(node.path) is None
        self.edits[node.path] = node
        if is_new and self._sorted_paths is not None:
            insort(self._sorted_paths, node.path)

    def remove(self, path: str) -> None:
        """Remove the node at `path`; nothing below it is touched."""
        if self.find(path) is None:
            return
        if path in self.base:
            self.edits[path] = None
        else:
            del self.edits[path]
        if self._sorted_paths is not None:
            del self._sorted_paths[bisect_left(self._sorted_paths, path)]

    def paths(self) -> list[str]:
        """Return all paths, sorted."""
        if self._sorted_paths is None:
            removed = {path for path, node in self.edits.items() if node is None}
            added = (path for path in self.edits if path not in removed)
            self._sorted_paths = sorted((self.base.keys() | set(added)) - removed)
        return self._sorted_paths

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes in the order of their paths."""
        for path in self.paths():
            node = self.find(path)
            if node is not None:
                yield node

    def paths_below(self, group: str) -> list[str]:
        """Return the paths strictly below `group`, sorted."""
        paths = self.paths()
        if group == ROOT:
            return [path for path in paths if path != ROOT]
        start = bisect_left(paths, group + "/")
        return paths[start : bisect_left(paths, group + _AFTER_SLASH)]

    def children(self, group: str) -> list[str]:
        """Return the paths directly below `group`, sorted."""
        return [path for path in self.paths_below(group) if parent_of(path) == group]

    def reset(self) -> None:
        """Forget all edits."""
        self.edits.clear()
        self._sorted_paths = None
