"""Pieces are assigned to manifests, set by set."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from icestream.model.ids import NodeId
from icestream.model.manifest_sets import DEFAULT_SET, ChunkManifests, ManifestSet
from icestream.packing.bins import balanced_groups, first_fit_decreasing

Cell = tuple[int, ...]
"""The place of a piece in the grid of splits."""

WHOLE_ARRAY: Cell = ()
"""The one cell of an array that is not split."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of an array's references that one split cell holds."""

    array: NodeId
    cell: Cell
    size: int
    """References; a piece without any is in no manifest and not passed here."""
    target: str
    """The manifest set that the rules name."""
    kind: Hashable = None
    """Pieces of different kinds are written differently and never share a manifest."""


@dataclass(frozen=True, slots=True)
class PackedManifest:
    """What one new manifest holds."""

    set_name: str
    """The set that it counts for, after overflow."""
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """References of all pieces together."""
        return sum(piece.size for piece in self.pieces)


def assign(
    pieces: Sequence[Piece],
    chunk_manifests: ChunkManifests,
    occupied: Mapping[str, int] = MappingProxyType({}),
) -> list[PackedManifest]:
    """Return the manifests to write, with every piece in exactly one of them.

    Sets are filled in the order of `overflow_order`. What is larger than a manifest of the set
    may be, and all but the fullest manifests where there are too many, goes on to the set that
    it overflows to. `default` takes everything: what is too large even there is alone in its
    manifest.

    Pieces of different cells are never put together. What is appended would otherwise cause
    earlier cells of the same array, which did not change, to be written again and again; and
    the boxes of an array's manifests would overlap, where readers search the first that fits.
    Pieces of the same cell are: with splits of equal length that is one period of several
    arrays.

    Args:
        pieces: The pieces of the closure of what changed.
        chunk_manifests: Sets and their limits.
        occupied: How many manifests of a set stay as they are and count for its cardinality;
            see `absorption.occupied_places`.
    """
    sets = chunk_manifests.completed().sets
    known = {manifest_set.name for manifest_set in sets}
    waiting: dict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        waiting[piece.target if piece.target in known else DEFAULT_SET].append(piece)
    packed: list[PackedManifest] = []
    for manifest_set in overflow_order(sets):
        bins, overflow = _fill(manifest_set, waiting[manifest_set.name], occupied)
        packed += [PackedManifest(manifest_set.name, tuple(content)) for content in bins]
        if overflow:
            waiting[manifest_set.overflow_to or DEFAULT_SET] += overflow
    return packed


def overflow_order(sets: Sequence[ManifestSet]) -> list[ManifestSet]:
    """Return the sets so that each comes before the one it overflows to, else as configured.

    There must be a set `default`, and no loop.
    """
    positions = {manifest_set.name: i for i, manifest_set in enumerate(sets)}
    targets = [None if one.is_default else one.overflow_to or DEFAULT_SET for one in sets]
    sources = Counter(targets)
    ready = [i for i, one in enumerate(sets) if not sources[one.name]]
    ordered: list[ManifestSet] = []
    while ready:
        i = heapq.heappop(ready)
        ordered.append(sets[i])
        target = targets[i]
        if target is not None:
            sources[target] -= 1
            if not sources[target]:
                heapq.heappush(ready, positions[target])
    return ordered


def _fill(
    manifest_set: ManifestSet, pieces: Sequence[Piece], occupied: Mapping[str, int]
) -> tuple[list[list[Piece]], list[Piece]]:
    """Return the manifests of one set, and the pieces that have no place in it."""
    limit = manifest_set.max_manifest_size
    fitting = [piece for piece in pieces if limit is None or piece.size <= limit]
    too_large = [piece for piece in pieces if limit is not None and piece.size > limit]
    bins = [content for mates in _by_cell(fitting) for content in _packed(manifest_set, mates)]
    if manifest_set.is_default:
        return [*bins, *([piece] for piece in too_large)], []
    if manifest_set.cardinality is None:
        return bins, too_large
    places = max(0, manifest_set.cardinality - occupied.get(manifest_set.name, 0))
    bins.sort(key=lambda content: _fullness(manifest_set, content), reverse=True)
    return bins[:places], too_large + [piece for content in bins[places:] for piece in content]


def _packed(manifest_set: ManifestSet, pieces: Sequence[Piece]) -> Iterable[list[Piece]]:
    sizes = [piece.size for piece in pieces]
    if manifest_set.max_manifest_size is not None:
        bins = first_fit_decreasing(sizes, manifest_set.max_manifest_size)
    else:
        bins = balanced_groups(sizes, manifest_set.arrays_per_manifest or 1)
    return ([pieces[i] for i in items] for items in bins)


def _fullness(manifest_set: ManifestSet, content: Sequence[Piece]) -> tuple[int, int]:
    size = sum(piece.size for piece in content)
    return (size, 0) if manifest_set.max_manifest_size is not None else (len(content), size)


def _by_cell(pieces: Iterable[Piece]) -> Iterable[list[Piece]]:
    """Group pieces of the same cell; arrays of different rank may be split along their first."""
    groups: dict[tuple[Cell, Hashable], list[Piece]] = defaultdict(list)
    for piece in pieces:
        groups[_without_trailing_zeros(piece.cell), piece.kind].append(piece)
    return groups.values()


def _without_trailing_zeros(cell: Cell) -> Cell:
    """Return the cell without the dimensions that are not split; that of an unsplit array is ()."""
    stop = len(cell)
    while stop > 1 and not cell[stop - 1]:
        stop -= 1
    return cell[:stop]
