"""Which container owns a location: the one with the longest prefix that covers it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.containers import VirtualChunkContainer
from icestream.model.location_pools import Mask, covered, matches
from icestream.model.locations import PrefixMap, prefix_keys

NO_OWNER = -1


@dataclass(frozen=True, slots=True)
class ContainerRanking:
    """Containers in the order in which they are considered.

    A template covers the URLs that can be made with it, and goes before a prefix that is as long.
    """

    containers: tuple[VirtualChunkContainer, ...]
    by_prefix: PrefixMap[int]
    templates: tuple[tuple[int, re.Pattern[str]], ...]

    @staticmethod
    def of(containers: Iterable[VirtualChunkContainer]) -> "ContainerRanking":
        """Return the ranking of these containers."""
        ranked = tuple(sorted(containers, key=_rank, reverse=True))
        prefixes = {c.url_prefix: i for i, c in enumerate(ranked) if c.template is None}
        templates = ((i, c.template) for i, c in enumerate(ranked))
        return ContainerRanking(
            ranked,
            PrefixMap.of(prefixes),
            tuple((i, re.compile(t.pattern)) for i, t in templates if t is not None),
        )

    def find(self, canonical: str) -> VirtualChunkContainer | None:
        """Return the owner of a canonical location."""
        found = self.by_prefix.find_canonical(canonical)
        best = len(self.containers) if found is None else found
        for position, pattern in self.templates:
            if position < best and pattern.match(canonical):
                best = position
        return self.containers[best] if best < len(self.containers) else None

    def owners(self, canonical: pa.Array) -> npt.NDArray[np.int32]:
        """Return the position in `containers` of the owner of each canonical location."""
        owners = np.full(len(canonical), NO_OWNER, np.int32)
        for position, container in enumerate(self.containers):
            waiting = owners == NO_OWNER
            if not waiting.any():
                break
            owners[waiting & _covered(container, canonical)] = position
        return owners


def _covered(container: VirtualChunkContainer, canonical: pa.Array) -> Mask:
    template = container.template
    if template is None:
        return covered(container.url_prefix, canonical)
    found = covered(template.prefix, canonical)
    return found & matches(canonical, template.pattern) if found.any() else found


def _rank(container: VirtualChunkContainer) -> tuple[int, int]:
    """Return what decides among containers that cover the same location; the largest wins."""
    template = container.template
    if template is None:
        return len(prefix_keys(container.url_prefix)[0].rstrip(":")), 0
    return len(prefix_keys(template.prefix)[0].rstrip(":")), len(template.text)
