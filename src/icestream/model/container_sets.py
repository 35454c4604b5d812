"""All containers that are in force, and what they make of locations.

A relative location is made absolute first, and the absolute one is matched, so that a container
that is given at run time can take the place of another.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import AccessError, ErrorKind, InvalidInputError
from icestream.model.container_rankings import NO_OWNER, ContainerRanking
from icestream.model.containers import VirtualChunkContainer
from icestream.model.expansions import (
    expanded_text,
    expanded_texts,
    relative_rows,
    split_relative,
)
from icestream.model.location_pools import (
    Mask,
    are_plain,
    as_texts,
    canonical_texts,
    spelled_texts,
)
from icestream.model.locations import (
    RELATIVE_SCHEME,
    ObjectAddress,
    canonical_location,
    invalid_location,
    is_relative,
    location_fault,
    spelled,
    split_location,
)
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from icestream.model.relative_rules import Examined, RelativeRule
from icestream.model.templates import relative_location


def default_containers() -> list[VirtualChunkContainer]:
    """Return the containers that every repository has; local files are not among them."""
    stores: dict[str, AnyObjectStoreConfig] = {
        "s3": ObjectStoreConfig.S3(S3Options()),
        "gcs": ObjectStoreConfig.Gcs(),
        "azure": ObjectStoreConfig.Azure(),
        "tigris": ObjectStoreConfig.Tigris(S3Options()),
        "http": ObjectStoreConfig.Http({"allow_http": "true"}),
        "https": ObjectStoreConfig.Http(),
    }
    return [VirtualChunkContainer(name, store, name) for name, store in stores.items()]


@dataclass(frozen=True, slots=True)
class ResolvedLocation:
    """Where a location leads."""

    container: VirtualChunkContainer
    location: str
    """Absolute."""
    address: ObjectAddress


@dataclass(frozen=True, slots=True)
class ContainerSet:
    """The containers in force, made by `ContainerSet.of`; a value that pickles."""

    declared: tuple[VirtualChunkContainer, ...]
    """Those of the configuration, stored or given at run time."""
    defaults: tuple[VirtualChunkContainer, ...]
    """Those that every repository has, where none was declared in their place."""
    named: Mapping[str, VirtualChunkContainer]
    """Those declared with a name, by name."""
    ranking: ContainerRanking
    automatic: RelativeRule
    """When locations become relative by themselves: to stored containers."""
    on_demand: RelativeRule
    """When locations become relative because it is asked for: to any container with a name."""

    @staticmethod
    def of(
        containers: Iterable[VirtualChunkContainer],
        *,
        defaults: bool = True,
        persisted: Iterable[VirtualChunkContainer] = (),
    ) -> "ContainerSet":
        """Return the set of these containers; those that break the rules are left out.

        Args:
            containers: Those in force, stored ones and those given at run time.
            defaults: Whether there are default containers too.
            persisted: Those that are stored.
        """
        declared = tuple(deepcopy(c) for c in containers if not any(c.faults()))
        built_in = default_containers() if defaults else []
        kept = tuple(d for d in built_in if not any(c.replaces(d) for c in declared))
        named = {c.name: c for c in declared if c.name is not None}
        plain = [c for c in named.values() if c.template is None]
        stored = tuple(deepcopy(c) for c in persisted if not any(c.faults()))
        return ContainerSet(
            declared=declared,
            defaults=kept,
            named=named,
            ranking=ContainerRanking.of(declared + kept),
            automatic=RelativeRule.of(stored, (c for c in stored if _is_movable(c, named))),
            on_demand=RelativeRule.of(plain, plain),
        )

    @property
    def containers(self) -> tuple[VirtualChunkContainer, ...]:
        """All containers, the longest prefix first."""
        return self.ranking.containers

    # -- reading ----------------------------------------------------------------------------------

    def find(self, location: str) -> VirtualChunkContainer | None:
        """Return the container of an absolute location.

        Raises:
            InvalidInputError: The location names no object, or not unmistakably.
        """
        return self.ranking.find(canonical_location(location))

    def get_named(self, name: str) -> VirtualChunkContainer:
        """Return the declared container of this name.

        Raises:
            AccessError: There is none.
        """
        if name not in self.named:
            names = ", ".join(sorted(self.named)) or "there are none"
            raise AccessError(
                f"no virtual chunk container is named {name!r} (names: {names}); declare it with "
                f"config.set_virtual_chunk_container(VirtualChunkContainer.of(name={name!r}, ...))",
                kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            )
        return self.named[name]

    def expand(self, location: str) -> str:
        """Return a location as an absolute one.

        Raises:
            AccessError: It is relative to a container that does not exist.
            InvalidInputError: It is malformed, or lacks an argument of a template.
        """
        if not is_relative(location):
            return location
        name, path = split_relative(location)
        return expanded_text(self.get_named(name), path)

    def resolve(self, location: str) -> ResolvedLocation:
        """Return where a location leads.

        Raises:
            AccessError: No container covers it.
            InvalidInputError: It names no object, or not unmistakably.
        """
        absolute = self.expand(location)
        container = self.find(absolute)
        if container is None:
            raise AccessError(_uncovered_message(location), kind=_NO_CONTAINER)
        return ResolvedLocation(container, absolute, split_location(absolute))

    def expand_all(self, pool: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return locations as absolute ones; those of unknown names are left as they are.

        Raises:
            InvalidInputError: One lacks an argument of a template.
        """
        texts = as_texts(pool)
        if not _any_relative(texts):
            return pool
        return pa.chunked_array([expanded_texts(spelled_texts(texts), self.named)])

    # -- templates --------------------------------------------------------------------------------

    def template_location(self, name: str, arguments: Sequence[str | None]) -> str:
        """Return the relative location that fills the template of a container.

        Args:
            name: That of the container.
            arguments: One for each placeholder. None and missing ones take the default, surplus
                ones are ignored.

        Raises:
            AccessError: There is no container of this name.
            InvalidInputError: It has no template, a placeholder remains empty, or the result is not
                below the prefix of the container.
        """
        if self.get_named(name).template is None:
            raise InvalidInputError(
                f"the container {name} has no url_template; write vcc://{name}/path",
                kind=ErrorKind.INVALID_VIRTUAL_REF,
            )
        location = relative_location(name, arguments)
        canonical_location(self.expand(location))
        return location

    def match_template(self, location: str) -> tuple[VirtualChunkContainer, tuple[str, ...]] | None:
        """Return the container whose template makes this location, and its arguments.

        Raises:
            InvalidInputError: The location names no object, or not unmistakably.
        """
        for container in self.containers:
            template = container.template
            arguments = None if template is None else template.match(location)
            if arguments is not None:
                return container, arguments
        return None

    # -- writing ----------------------------------------------------------------------------------

    def stored_text(
        self, location: str, *, relative: bool | None = None, validate: bool = True
    ) -> str:
        """Return one location as it is stored, see `stored_texts`."""
        if is_relative(location):
            return self._stored_relative(location, relative=relative, validate=validate)
        fault = location_fault(location)
        if fault is not None:
            raise invalid_location(location, fault)
        canonical = canonical_location(location)
        if validate and self.ranking.find(canonical) is None:
            raise InvalidInputError(_uncovered_message(location), kind=_NO_CONTAINER)
        if relative is False:
            return location
        rule = self.on_demand if relative else self.automatic
        text = rule.relative_text(location, canonical)
        if relative and text is None:
            raise _not_relative(location)
        return text or location

    def _stored_relative(self, location: str, *, relative: bool | None, validate: bool) -> str:
        name, _ = split_relative(location)
        if name not in self.named and not validate and relative is not False:
            return spelled(location)
        absolute = self.expand(location)
        fault = location_fault(absolute)
        if fault is not None:
            raise invalid_location(location, fault)
        return absolute if relative is False else spelled(location)

    def stored_texts(
        self, pool: pa.ChunkedArray, *, relative: bool | None = None, validate: bool = True
    ) -> pa.ChunkedArray:
        """Return distinct locations as they are stored.

        Args:
            pool: The locations, absolute or relative.
            relative: None makes those relative that a stored container covers which has a name, no
                template, and a prefix that ends in a slash; it leaves the others as they are. True
                makes all relative, to any container with a name. False makes all absolute.
            validate: Refuse locations that no container covers.

        Raises:
            InvalidInputError: A location is malformed, or no container covers it, or it cannot be
                made relative.
            AccessError: A location is to be made absolute and its container does not exist.
        """
        texts = as_texts(pool)
        examined = self._examine(texts)
        examined.refuse_malformed()
        if validate:
            self._refuse_uncovered(examined)
        if relative is False:
            return self._made_absolute(pool, examined)
        stored, done = (self.on_demand if relative else self.automatic).applied(examined)
        if relative and not done.all():
            raise _not_relative(examined.first_of(~done))
        return pool if stored is texts else pa.chunked_array([stored])

    def refused(
        self, pool: pa.ChunkedArray, *, relative: bool | None = None, validate: bool = True
    ) -> Mask:
        """Tell which locations are to blame if `stored_texts` raises for the same arguments."""
        examined = self._examine(as_texts(pool))
        if examined.faulty.any():
            return examined.faulty
        uncovered = self._uncovered(examined)
        if validate and uncovered.any():
            return uncovered
        if relative is False:
            return examined.unknown
        if relative is None:
            return np.zeros(len(examined.texts), np.bool_)
        _, done = self.on_demand.applied(examined)
        return ~done

    def malformed(self, pool: pa.ChunkedArray) -> pa.Array:
        """Return the positions of locations that are never stored."""
        return pa.array(np.flatnonzero(self._examine(as_texts(pool)).faulty))

    def uncovered(self, pool: pa.ChunkedArray) -> pa.Array:
        """Return the positions of locations that no container covers."""
        return pa.array(np.flatnonzero(self._uncovered(self._examine(as_texts(pool)))))

    def _examine(self, texts: pa.Array) -> Examined:
        if are_plain(texts):
            nothing = np.zeros(len(texts), np.bool_)
            return Examined(texts, texts, texts, texts, nothing, nothing)
        proper = spelled_texts(texts)
        absolute = expanded_texts(proper, self.named, spelling=spelled)
        canonical, faulty = canonical_texts(absolute)
        unknown = relative_rows(absolute)
        return Examined(texts, proper, absolute, canonical, faulty & ~unknown, unknown)

    def _refuse_uncovered(self, examined: Examined) -> None:
        uncovered = self._uncovered(examined)
        if uncovered.any():
            raise InvalidInputError(
                _uncovered_message(examined.first_of(uncovered)), kind=_NO_CONTAINER
            )

    def _uncovered(self, examined: Examined) -> Mask:
        uncovered: Mask = self.ranking.owners(examined.canonical) == NO_OWNER
        return uncovered

    def _made_absolute(self, pool: pa.ChunkedArray, examined: Examined) -> pa.ChunkedArray:
        if examined.unknown.any():
            self.expand(examined.texts[int(np.argmax(examined.unknown))].as_py())
        relative = relative_rows(examined.spelled)
        if not relative.any():
            return pool
        expanded = expanded_texts(examined.spelled, self.named)
        return pa.chunked_array([pc.if_else(pa.array(relative), expanded, examined.texts)])


_NO_CONTAINER = ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK


def _any_relative(texts: pa.Array) -> bool:
    return bool(pc.any(pc.starts_with(texts, f"{RELATIVE_SCHEME}://", ignore_case=True)).as_py())


def _is_movable(stored: VirtualChunkContainer, named: Mapping[str, VirtualChunkContainer]) -> bool:
    """Tell whether every reader finds the same place by the name of a stored container."""
    in_force = None if stored.name is None else named.get(stored.name)
    return (
        in_force is not None
        and in_force.key == stored.key
        and in_force.url_prefix == stored.url_prefix
        and stored.url_prefix.endswith("/")
    )


def _not_relative(locations: str) -> InvalidInputError:
    return InvalidInputError(
        f"{locations} cannot be stored relative to a container: none with a name and without a "
        "template has a prefix that covers it in this spelling",
        kind=ErrorKind.INVALID_VIRTUAL_REF,
    )


def _uncovered_message(locations: str) -> str:
    return (
        f"no virtual chunk container covers {locations}; add one with "
        "config.set_virtual_chunk_container(...), or pass validate_containers=False"
    )
