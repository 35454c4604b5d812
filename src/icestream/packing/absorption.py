"""Manifests that stay unchanged otherwise, but have room that a full set needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from icestream.model.ids import ManifestId
from icestream.model.manifest_sets import ManifestSet
from icestream.packing.bins import balanced_groups, first_fit_decreasing, place_decreasing


@dataclass(frozen=True, slots=True)
class LinkedManifest:
    """A manifest of a set that the new snapshot refers to as it is."""

    id: ManifestId
    references: int
    pieces: int = 1
    """How many pieces of arrays it holds."""


def manifests_to_absorb(
    new_sizes: Sequence[int], linked: Sequence[LinkedManifest], manifest_set: ManifestSet
) -> list[ManifestId]:
    """Return which linked manifests of a set to write anew, together with new pieces.

    A commit packs only what it changes. If each of many commits creates an array, each adds a
    manifest to the set; soon the set has as many as it may, all nearly empty, and everything
    later overflows. To prevent that, manifests with room are opened again: no more than needed,
    the emptiest first, since that is the least to write again, and none without room for a new
    piece. Where that is not enough, pieces overflow. A set of any number of manifests is never
    in need.

    Args:
        new_sizes: References of each piece to pack, all of one cell; those too large for the set
            do not count.
        linked: The manifests of the set that are not stale already.
        manifest_set: The set, with its limits.
    """
    if manifest_set.cardinality is None:
        return []
    homeless = _without_a_place(new_sizes, manifest_set, manifest_set.cardinality - len(linked))
    by_room = sorted(linked, key=lambda manifest: -_room(manifest, manifest_set))
    rooms = [_room(manifest, manifest_set) for manifest in by_room]
    opened = {place for _, place in place_decreasing(homeless, rooms) if place is not None}
    return [by_room[place].id for place in sorted(opened)]


def occupied_places(linked: int, opened: int, manifest_set: ManifestSet) -> int:
    """Return how many places of a set are taken by the manifests of it that stay linked.

    A set may have too many already: written by others, or under another configuration. To pack
    all of them anew is not the business of a commit that happens to come along, but it puts
    what it opened back into the set, and so never adds to the number.

    Args:
        linked: Manifests of the set before any was opened again.
        opened: How many of them were.
        manifest_set: The set, with its limits.
    """
    cardinality = linked if manifest_set.cardinality is None else manifest_set.cardinality
    return min(linked, cardinality) - opened


def _without_a_place(sizes: Sequence[int], manifest_set: ManifestSet, places: int) -> list[int]:
    """Return what the pieces need that are not in one of the fullest new manifests."""
    limit = manifest_set.max_manifest_size
    if limit is None:
        needs = [1] * len(sizes)
        groups = balanced_groups(needs, manifest_set.arrays_per_manifest or 1)
    else:
        needs = [size for size in sizes if size <= limit]
        groups = first_fit_decreasing(needs, limit)
    groups.sort(key=lambda items: -sum(needs[item] for item in items))
    return [needs[item] for items in groups[max(places, 0) :] for item in items]


def _room(manifest: LinkedManifest, manifest_set: ManifestSet) -> int:
    if manifest_set.max_manifest_size is not None:
        return manifest_set.max_manifest_size - manifest.references
    return (manifest_set.arrays_per_manifest or 1) - manifest.pieces
