"""Which absolute locations are stored relative to a container, and how."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.container_rankings import NO_OWNER, ContainerRanking
from icestream.model.containers import VirtualChunkContainer
from icestream.model.expansions import folder_of, relative_rows
from icestream.model.location_pools import Mask, exchanged, starts_with
from icestream.model.locations import (
    RELATIVE_SCHEME,
    invalid_location,
    location_fault,
    spelled,
)


@dataclass(frozen=True, slots=True)
class RelativeRule:
    """Which absolute locations become relative, and to which containers."""

    ranking: ContainerRanking
    """The containers among which the owner of a location is found."""
    names: frozenset[str | None]
    """Those that take relative locations."""

    @staticmethod
    def of(
        containers: Iterable[VirtualChunkContainer], targets: Iterable[VirtualChunkContainer]
    ) -> "RelativeRule":
        """Return the rule for locations that these containers own; targets are some of them."""
        names = frozenset(c.name for c in targets if c.template is None)
        return RelativeRule(ContainerRanking.of(containers), names)

    def relative_text(self, location: str, canonical: str) -> str | None:
        """Return a location made relative, if it becomes so."""
        owner = self.ranking.find(canonical)
        if owner is None or owner.name not in self.names:
            return None
        folder, text = spelled(folder_of(owner.url_prefix)), spelled(location)
        return _beginning(owner) + text.removeprefix(folder) if text.startswith(folder) else None

    def applied(self, examined: "Examined") -> tuple[pa.Array, Mask]:
        """Return locations as they are stored, and which of them are relative."""
        owners = self.ranking.owners(examined.canonical)
        stored, done = examined.texts, relative_rows(examined.spelled)
        if done.any():
            stored = pc.if_else(pa.array(done), examined.spelled, stored)
            owners[done] = NO_OWNER
        for position, owner in enumerate(self.ranking.containers):
            if owner.name not in self.names:
                continue
            folder = spelled(folder_of(owner.url_prefix))
            rows = (owners == position) & starts_with(examined.spelled, folder)
            if not rows.any():
                continue
            moved = exchanged(examined.spelled, rows, folder, _beginning(owner))
            stored = moved if rows.all() else pc.if_else(pa.array(rows), moved, stored)
            done |= rows
        return stored, done


@dataclass(frozen=True, slots=True)
class Examined:
    """What is known of a pool of locations before it is stored."""

    texts: pa.Array
    """As given."""
    spelled: pa.Array
    absolute: pa.Array
    canonical: pa.Array
    faulty: Mask
    unknown: Mask
    """Relative to a container that does not exist."""

    def first_of(self, rows: Mask) -> str:
        """Return the first of some locations as it was given, with the number of others."""
        first: str = self.texts[int(np.argmax(rows))].as_py()
        count = int(rows.sum())
        return f"{first} and {count - 1} other locations" if count > 1 else first

    def refuse_malformed(self) -> None:
        """Raise if a location is malformed."""
        if self.faulty.any():
            reason = location_fault(self.absolute[int(np.argmax(self.faulty))].as_py())
            raise invalid_location(self.first_of(self.faulty), reason or "cannot be stored")


def _beginning(container: VirtualChunkContainer) -> str:
    return f"{RELATIVE_SCHEME}://{container.name}/"
