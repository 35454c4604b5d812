"""What a repository points at outside of itself, and who in it points there."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import split_location
from icestream.model.prefix_advice import AdviceLimits, PrefixAdvice, advise, unused_name
from icestream.repository import lifecycle
from icestream.repository.async_twins import async_twin
from icestream.repository.context import Context
from icestream.repository.core import RepositoryCore
from icestream.repository.location_rewrites import (
    LocationRewrite,
    RewriteRequest,
    rewrite_locations,
)
from icestream.repository.reference_census import (
    ChecksumCounts,
    ReferenceCounts,
    count_checksums,
    count_references,
)
from icestream.repository.reference_users import ReferenceUsers, find_users
from icestream.repository.reference_walks import Scope, used_manifests

DependencyLevel = Literal["containers", "prefixes", "objects"]


@dataclass(frozen=True, slots=True, eq=False)
class DependencyReport:
    """The places that a repository points at, a row for each."""

    level: DependencyLevel
    table: pa.Table
    """Containers: name, prefix, platform, template. Objects: location, references, num_bytes,
    arrays. Prefixes: prefix, references, num_bytes, arrays, objects."""

    def __len__(self) -> int:
        return len(self.table)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


@dataclass(frozen=True, slots=True)
class ChecksumReport:
    """How many virtual references would notice that their object changed."""

    total: ChecksumCounts
    arrays: dict[str, ChecksumCounts]
    """By the path of the array."""


class Dependencies(RepositoryCore):
    """The part of a repository that knows what it depends on.

    Where a version can be named, naming none means all snapshots, those without a branch or tag
    included; `history=True` adds the snapshots before the named one. Every manifest is read once,
    and its references are counted once, however many snapshots share it.
    """

    def dependencies(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        history: bool = False,
        level: DependencyLevel = "objects",
        depth: int = 1,
    ) -> DependencyReport:
        """Return the places that virtual chunks are in.

        Args:
            branch: Look at the newest snapshot of this branch.
            tag: Look at the snapshot of this tag.
            snapshot_id: Look at this snapshot.
            history: Look at the snapshots before it too.
            level: Objects, folders ("prefixes"), or containers; the last is answered from the
                configuration alone, for all snapshots.
            depth: How many segments of a path make a prefix; 1 is the bucket.
        """
        _check_level(level, depth)
        if level == "containers":
            return DependencyReport(level, _containers_table(self._context))
        scope = self._scope(branch, tag, snapshot_id, history=history)
        counts = self._counts(scope)
        containers = containers_of(self._context)
        if level == "objects":
            return DependencyReport(level, counts.objects(containers))
        return DependencyReport(level, counts.prefixes(containers, depth))

    dependencies_async = async_twin(dependencies)

    def users_of(
        self,
        location: str,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        history: bool = False,
    ) -> ReferenceUsers:
        """Return the arrays, snapshots, branches and tags that refer to an object.

        Args:
            location: The object, or a prefix: then everything below it.
            branch: Look at the newest snapshot of this branch only.
            tag: Look at the snapshot of this tag only.
            snapshot_id: Look at this snapshot only.
            history: Look at the snapshots before it too.
        """
        scope = self._scope(branch, tag, snapshot_id, history=history)
        snapshot_ids = scope.snapshot_ids(self._context)
        return find_users(self._context, containers_of(self._context), location, snapshot_ids)

    users_of_async = async_twin(users_of)

    def unchecked_references(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        history: bool = False,
    ) -> ChecksumReport:
        """Return how many virtual references have a checksum of which kind, and how many none."""
        scope = self._scope(branch, tag, snapshot_id, history=history)
        uses = used_manifests(self._context.assets, scope.snapshot_ids(self._context))
        arrays = count_checksums(self._context.assets, uses)
        return ChecksumReport(sum(arrays.values(), ChecksumCounts()), arrays)

    unchecked_references_async = async_twin(unchecked_references)

    def advise_containers(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        history: bool = False,
        limits: AdviceLimits | None = None,
    ) -> PrefixAdvice:
        """Propose containers that would make the stored locations shorter, and say by how much.

        Nothing is changed: put the proposals that you like into the configuration, save it, and
        call `rewrite_locations`. Bytes are those of the texts in the manifests that are looked at,
        before compression.
        """
        scope = self._scope(branch, tag, snapshot_id, history=history)
        weights = self._counts(scope).weights(containers_of(self._context))
        return advise(weights, stored_containers(self._context), limits or AdviceLimits())

    advise_containers_async = async_twin(advise_containers)

    def rewrite_locations(
        self,
        message: str,
        *,
        branch: str,
        relative: bool = True,
        templates: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> LocationRewrite:
        """Store the locations of a branch in the other form, in one commit.

        Only texts change: every chunk stays where it is. Manifests in which none changes are kept,
        and if none changes at all there is no commit.

        Args:
            message: The commit message.
            branch: The branch to commit to.
            relative: Make locations relative to the stored containers that own them, or absolute.
            templates: Also make them relative to templates, which icechunk cannot read.
            metadata: Metadata of the commit.

        Raises:
            ConflictError: The branch moved meanwhile.
        """
        if relative:
            self._repo_info_timeline("relative locations")
        containers = containers_of(self._context, stored_containers(self._context))
        return rewrite_locations(
            self._context,
            containers,
            RewriteRequest(
                branch=branch,
                message=message,
                metadata={**self._context.commit_metadata, **(metadata or {})},
                relative=relative,
                templates=templates,
            ),
        )

    rewrite_locations_async = async_twin(rewrite_locations)

    def ensure_containers(self, locations: Iterable[str]) -> list[VirtualChunkContainer]:
        """Add a container per platform and bucket for locations that none in use covers.

        The configuration of this repository is changed; `save_config` stores it for everyone.
        Default containers do not count, since nothing can be said about a bucket with them.

        Returns:
            The containers that were added.

        Raises:
            InvalidInputError: A location is malformed, or its scheme is of no platform; nothing is
                changed then.
        """
        config = self._context.config
        declared = config.list_virtual_chunk_containers()
        added = _missing_containers(declared, dict.fromkeys(locations))
        for container in added:
            config.set_virtual_chunk_container(container)
        return added

    def _scope(
        self, branch: str | None, tag: str | None, snapshot_id: str | None, *, history: bool
    ) -> Scope:
        given = sum(name is not None for name in (branch, tag, snapshot_id))
        if given > 1:
            raise InvalidInputError(
                "give one of branch, tag and snapshot_id, or none for all snapshots",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        chosen = self._resolve(branch, tag, snapshot_id) if given else None
        return Scope(snapshot_id=chosen, history=history)

    def _counts(self, scope: Scope) -> ReferenceCounts:
        assets = self._context.assets
        return count_references(assets, used_manifests(assets, scope.snapshot_ids(self._context)))


def _check_level(level: str, depth: int) -> None:
    levels = ("containers", "prefixes", "objects")
    if level not in levels or depth < 1:
        raise InvalidInputError(
            f"level is {level!r} and depth {depth}; the level is one of {', '.join(levels)}, and "
            "the depth at least 1",
            kind=ErrorKind.INVALID_ARGUMENT,
        )


# -- containers -----------------------------------------------------------------------------------


def containers_of(
    context: Context, persisted: Iterable[VirtualChunkContainer] = ()
) -> ContainerSet:
    """Return the containers of the configuration as it is now, saved or not."""
    config = context.config
    return ContainerSet.of(
        config.list_virtual_chunk_containers(),
        defaults=config.default_containers,
        persisted=persisted,
    )


def stored_containers(context: Context) -> list[VirtualChunkContainer]:
    """Return the containers that every reader of the repository has."""
    config = lifecycle.fetch_config(context.assets.storage)
    return [] if config is None else config.list_virtual_chunk_containers()


def _containers_table(context: Context) -> pa.Table:
    containers = containers_of(context).declared
    columns = {
        "name": [container.name for container in containers],
        "prefix": [container.url_prefix for container in containers],
        "platform": [container.platform for container in containers],
        "template": [container.url_template for container in containers],
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _missing_containers(
    declared: list[VirtualChunkContainer], locations: Iterable[str]
) -> list[VirtualChunkContainer]:
    containers = ContainerSet.of(declared, defaults=False)
    taken = {container.name for container in declared if container.name}
    added: dict[str, VirtualChunkContainer] = {}
    for location in locations:
        absolute = containers.expand(location)
        if containers.find(absolute) is None and (prefix := _bucket_of(absolute)) not in added:
            name = unused_name(prefix, taken)
            added[prefix] = VirtualChunkContainer.of(prefix=prefix, name=name)
            taken.add(name)
    return list(added.values())


def _bucket_of(location: str) -> str:
    """Return the prefix of a bucket; of local files, the first folder."""
    address = split_location(location)
    scheme = f"{address.scheme}://" if address.scheme else ""
    first = address.bucket or f"/{address.key.partition('/')[0]}"
    return f"{scheme}{first}/"


# -- sessions -------------------------------------------------------------------------------------
