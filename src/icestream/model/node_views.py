"""The nodes of a snapshot with uncommitted edits laid over them."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from icestream.model.nodes import Node
from icestream.model.paths import ROOT, parent_of

_AFTER_SLASH = chr(ord("/") + 1)
_UNEDITED = object()


class NodeView:
    """Path to node: a snapshot's nodes, and edits that hide or add some.

    Paths are kept sorted by code point, which is the order of their UTF-8 bytes: the nodes below
    a group are then one contiguous run. One thread edits at a time; any number may read meanwhile.
    """

    def __init__(
        self, base: Mapping[str, Node], edits: dict[str, Node | None] | None = None
    ) -> None:
        self.base = base
        self.edits: dict[str, Node | None] = edits if edits is not None else {}
        """Path to the node put there, or None where a node of the snapshot was removed."""
        self._edition = 0
        """Counts the times that a path came or went."""
        self._sorted_paths: tuple[int, list[str]] = (-1, [])
        """The paths of one edition; the list itself is never changed."""

    def find(self, path: str) -> Node | None:
        """Return the node at `path`, or None."""
        edited = self.edits.get(path, _UNEDITED)
        return self.base.get(path) if edited is _UNEDITED else edited  # type: ignore[return-value]  # no sentinel here

    def put(self, node: Node) -> None:
        """Add a node, or replace the one at its path."""
        is_new = self.find(node.path) is None
        self.edits[node.path] = node
        self._edition += is_new

    def remove(self, path: str) -> None:
        """Remove the node at `path`; nothing below it is touched."""
        if self.find(path) is None:
            return
        if path in self.base:
            self.edits[path] = None
        else:
            del self.edits[path]
        self._edition += 1

    def paths(self) -> list[str]:
        """Return all paths, sorted."""
        edition, paths = self._sorted_paths
        if edition != self._edition:
            # the edition is read before the edits: an edit in between only makes the list stale
            edition, edits = self._edition, dict(self.edits)
            added = (path for path, node in edits.items() if node is not None)
            removed = (path for path, node in edits.items() if node is None)
            paths = sorted((self.base.keys() | set(added)).difference(removed))
            self._sorted_paths = edition, paths
        return paths

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

    def child_names(self, group: str) -> list[str]:
        """Return the names directly below `group`, of nodes and of groups that they imply.

        Subtrees are jumped over, so the cost does not grow with what is deeper down.
        """
        paths = self.paths_below(group)
        start = len(group.rstrip("/")) + 1
        names: set[str] = set()
        row = 0
        while row < len(paths):
            name, slash, _ = paths[row][start:].partition("/")
            names.add(name)
            below = f"{paths[row][:start]}{name}{_AFTER_SLASH}"
            row = bisect_left(paths, below, lo=row) if slash else row + 1
        return sorted(names)

    def reset(self) -> None:
        """Forget all edits."""
        self.edits.clear()
        self._edition += 1
