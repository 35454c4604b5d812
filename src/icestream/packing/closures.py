"""What has to be written again when some pieces change.

A piece is the part of an array's references that one split cell holds. Manifests are files that
never change: whoever edits one piece writes its manifests anew, with every other piece in them.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closure[P: Hashable, M: Hashable]:
    """Pieces to pack again and the manifests that they leave, in the order of discovery."""

    pieces: AbstractSet[P]
    manifests: AbstractSet[M]


def closure[P: Hashable, M: Hashable](
    start: Iterable[P],
    manifests_of: Callable[[P], Iterable[M]] | Mapping[P, Iterable[M]],
    pieces_of: Callable[[M], Iterable[P]] | Mapping[M, Iterable[P]],
) -> Closure[P, M]:
    """Return all pieces that share a manifest with `start`, directly or over others.

    A piece without manifests, such as one of an array created since the last commit, is alone
    in its closure. An array that was deleted and created again has a new id: a new piece.

    Args:
        start: The pieces that changed.
        manifests_of: The manifests that hold references of a piece; in a mapping, a piece that
            is absent has none.
        pieces_of: The pieces that a manifest holds references of, likewise.
    """
    find_manifests = _lookup(manifests_of)
    find_pieces = _lookup(pieces_of)
    found: dict[P, None] = dict.fromkeys(start)
    manifests: dict[M, None] = {}
    queue = deque(found)
    while queue:
        for manifest in find_manifests(queue.popleft()):
            if manifest in manifests:
                continue
            manifests[manifest] = None
            fresh = [piece for piece in find_pieces(manifest) if piece not in found]
            found.update(dict.fromkeys(fresh))
            queue.extend(fresh)
    return Closure(found.keys(), manifests.keys())


def _lookup[K: Hashable, V](
    neighbours: Callable[[K], Iterable[V]] | Mapping[K, Iterable[V]],
) -> Callable[[K], Iterable[V]]:
    if isinstance(neighbours, Mapping):
        return lambda key: neighbours.get(key, ())
    return neighbours
