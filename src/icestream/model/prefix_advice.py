"""Advice on containers: which prefixes and templates would make the stored locations shorter.

Folders are the nodes of a trie of path segments, weighted by what is below them. They are chosen
greedily by the bytes that each saves beyond those chosen before. What the advice promises is then
counted with the same functions that rewrite locations, so that it is what will happen.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.location_forms import PLAIN_ARGUMENTS, owners, relative_texts
from icestream.model.locations import RELATIVE_SCHEME, prefix_fault
from icestream.model.object_stores import AnyObjectStoreConfig
from icestream.model.path_weights import Folder, LocationWeights, heaviest_folders
from icestream.model.templates import PLACEHOLDER

_CANDIDATES = 4096
_LONGEST_NAME = 16
_LETTER = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"[A-Za-z0-9]+")
_CLASSES = ("[0-9]", "[A-Za-z]")
"""Runs of characters that a placeholder takes as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceLimits:
    """How much advice is wanted."""

    max_containers: int = 8
    """Never propose more."""
    min_bytes_saved: int = 1024
    """A container that saves less is not worth its name."""
    templates: bool = False
    """Also propose templates, whose locations icechunk does not read."""

    def __post_init__(self) -> None:
        if self.max_containers < 1:
            raise InvalidInputError(
                f"max_containers is {self.max_containers}; ask for at least one",
                kind=ErrorKind.INVALID_ARGUMENT,
            )


@dataclass(frozen=True, slots=True)
class ContainerShare:
    """A container, and the locations that would be stored relative to it."""

    container: VirtualChunkContainer
    is_new: bool
    """Whether it is proposed here, and not in the configuration yet."""
    locations: int
    references: int
    bytes_before: int
    """Of the texts of these locations in all manifests, as they are stored now."""
    bytes_after: int

    @property
    def bytes_saved(self) -> int:
        """How much shorter the texts become; negative if they become longer."""
        return self.bytes_before - self.bytes_after


@dataclass(frozen=True, slots=True)
class PrefixAdvice:
    """Proposed containers, and what they and those that exist make of the stored locations."""

    shares: tuple[ContainerShare, ...]
    """Those that save most first."""
    bytes_before: int
    """Of the texts of all locations in all manifests, as they are stored now."""
    bytes_after: int

    @property
    def proposals(self) -> tuple[ContainerShare, ...]:
        """The containers that do not exist yet."""
        return tuple(share for share in self.shares if share.is_new)

    @property
    def bytes_saved(self) -> int:
        """How much shorter all texts become."""
        return self.bytes_before - self.bytes_after


def advise(
    weights: LocationWeights,
    existing: Iterable[VirtualChunkContainer] = (),
    limits: AdviceLimits = AdviceLimits(),  # noqa: B008  a frozen value
) -> PrefixAdvice:
    """Propose containers for these locations, beside the stored ones that exist."""
    existing = tuple(existing)
    proposed = _propose(weights, existing, limits)
    while True:
        advice = _predict(weights, existing, proposed, templates=limits.templates)
        worth = {
            share.container.key
            for share in advice.proposals
            if share.bytes_saved >= limits.min_bytes_saved
        }
        kept = [container for container in proposed if container.key in worth]
        if len(kept) == len(proposed):
            return advice
        proposed = kept


def _propose(
    weights: LocationWeights, existing: Sequence[VirtualChunkContainer], limits: AdviceLimits
) -> list[VirtualChunkContainer]:
    in_force = ContainerSet.of(existing, defaults=False, persisted=existing)
    taken = {container.name for container in existing if container.name}
    proposed: list[VirtualChunkContainer] = []
    for folder in choose_folders(heaviest_folders(weights, _CANDIDATES), existing, limits):
        store = _store_of(folder, in_force)
        if store is not None:
            container = VirtualChunkContainer(folder, store, unused_name(folder, taken))
            taken.add(container.name or "")
            proposed.append(container)
    if not limits.templates:
        return proposed
    return [_with_template(c, proposed, weights.locations) for c in proposed]


def _store_of(folder: str, containers: ContainerSet) -> AnyObjectStoreConfig | None:
    """Return how to reach a folder: as now, or by its scheme; None if neither says."""
    covering = containers.find(f"{folder}x")
    if covering is not None:
        return deepcopy(covering.store)
    try:
        return VirtualChunkContainer.of(prefix=folder).store
    except InvalidInputError:
        return None


def _predict(
    weights: LocationWeights,
    existing: Sequence[VirtualChunkContainer],
    proposed: Sequence[VirtualChunkContainer],
    *,
    templates: bool,
) -> PrefixAdvice:
    everything = [*existing, *proposed]
    containers = ContainerSet.of(everything, persisted=everything)
    after_texts = relative_texts(weights.stored, containers, templates=templates)
    before, after = weights.stored_bytes(weights.stored), weights.stored_bytes(after_texts)
    new = {container.key for container in proposed}
    shares = [
        ContainerShare(
            container=container,
            is_new=container.key in new,
            locations=int(rows.sum()),
            references=int(weights.references[rows].sum()),
            bytes_before=int(before[rows].sum()),
            bytes_after=int(after[rows].sum()),
        )
        for container, rows in owners(weights.locations, containers)
    ]
    return PrefixAdvice(
        tuple(sorted(shares, key=lambda share: share.bytes_saved, reverse=True)),
        int(before.sum()),
        int(after.sum()),
    )


# -- choosing folders -----------------------------------------------------------------------------


def choose_folders(
    folders: Iterable[Folder],
    existing: Iterable[VirtualChunkContainer],
    limits: AdviceLimits,
) -> list[str]:
    """Return the folders that save most together, each counted beyond those chosen before it."""
    choice = _Choice({folder.path: folder for folder in folders})
    for container in existing:
        if container.template is None and container.url_prefix.endswith("/"):
            choice.take(container.url_prefix, _saving(container.url_prefix, container.name))
    chosen: list[str] = []
    while len(chosen) < limits.max_containers:
        best = choice.find_best()
        if best is None or choice.gains[best] < limits.min_bytes_saved:
            break
        chosen.append(best)
        choice.take(best, choice.savings[best])
    return chosen


class _Choice:
    """Folders, some of which were chosen, and what each of the others would still save."""

    def __init__(self, folders: Mapping[str, Folder]) -> None:
        sound = {p: folder for p, folder in folders.items() if prefix_fault(p) is None}
        self.savings = {path: _saving(path, _base_name(path)) for path in sound}
        self._free = {path: folder.copies for path, folder in sound.items()}
        """Copies below a folder that are not below a chosen one inside of it."""
        self._above: dict[str, tuple[int, int]] = {}
        """By folder: length and saving of the nearest chosen one that holds it."""
        self._chosen: set[str] = set()
        self.gains: dict[str, int] = {}
        self._count_gains()

    def find_best(self) -> str | None:
        """Return the folder that saves most."""
        return max(self.gains, key=lambda path: self.gains[path], default=None)

    def take(self, chosen: str, saving: int) -> None:
        """Choose a folder."""
        self._chosen.add(chosen)
        covered = self._free.get(chosen, 0)
        for path in _folders_above(chosen):
            if path in self._free:
                self._free[path] -= covered
            if path in self._chosen:
                break
        for path in self._free:
            if path.startswith(chosen) and len(chosen) > self._above.get(path, (0, 0))[0]:
                self._above[path] = (len(chosen), saving)
        self._count_gains()

    def _count_gains(self) -> None:
        self.gains = {
            path: self._free[path] * (saving - self._above.get(path, (0, 0))[1])
            for path, saving in self.savings.items()
            if path not in self._chosen
        }


def _folders_above(path: str) -> Iterable[str]:
    end = path.rfind("/", 0, len(path) - 1)
    while end >= 0:
        yield path[: end + 1]
        end = path.rfind("/", 0, end)


def _saving(prefix: str, name: str | None) -> int:
    """Return how many bytes shorter a location below a prefix is when it is relative to it."""
    if name is None:
        return 0
    return len(prefix.encode()) - len(f"{RELATIVE_SCHEME}://{name}/".encode())


def _base_name(folder: str) -> str:
    """Return the first words of the last segment that says something."""
    segments = folder.rpartition("://")[2].split("/")
    telling = (segment for segment in reversed(segments) if len(_LETTER.findall(segment)) > 1)
    words: list[str] = _WORD.findall(next(telling, "data"))
    name = words[0][:_LONGEST_NAME]
    for word in words[1:]:
        if len(f"{name}-{word}") > _LONGEST_NAME:
            break
        name = f"{name}-{word}"
    return name


def unused_name(folder: str, taken: Container[str]) -> str:
    """Return a name for the container of a folder that is not taken."""
    base = _base_name(folder)
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


# -- templates ------------------------------------------------------------------------------------


def _with_template(
    container: VirtualChunkContainer,
    proposed: Sequence[VirtualChunkContainer],
    locations: pa.Array,
) -> VirtualChunkContainer:
    """Return the container with a template if all that it owns is made by one, and shorter so."""
    together = ContainerSet.of(proposed, defaults=False, persisted=proposed)
    for owner, rows in owners(locations, together):
        if owner.key == container.key:
            template = find_template(container.url_prefix, locations.filter(pa.array(rows)))
            if template is not None:
                templated = VirtualChunkContainer(
                    container.url_prefix, container.store, container.name
                )
                templated.url_template = template
                return templated
    return container


def find_template(prefix: str, locations: pa.Array) -> str | None:
    """Return a template with one placeholder per segment that differs, if it shortens locations.

    All locations must be below the prefix, equally deep, and differ by plain characters.
    """
    rests = pc.utf8_slice_codeunits(locations, len(prefix))
    is_plain = pc.match_substring_regex(locations, PLAIN_ARGUMENTS)
    depths = pc.unique(pc.count_substring(rests, "/"))
    segments = pc.list_flatten(pc.split_pattern(rests, "/"))
    has_empty = pc.any(pc.equal(segments, ""))
    if not pc.all(is_plain).as_py() or len(depths) > 1 or has_empty.as_py():
        return None
    depth = depths[0].as_py() + 1
    columns = [segments.take(pa.array(np.arange(i, len(segments), depth))) for i in range(depth)]
    template = prefix + "/".join(map(_segment_pattern, columns))
    placeholders = template.count(PLACEHOLDER)
    literal = len(template) - len(prefix) - len(PLACEHOLDER) * placeholders
    return template if placeholders and literal > placeholders - 1 else None


def _segment_pattern(segments: pa.Array) -> str:
    """Return what all segments have in common, with a placeholder for the rest."""
    first, last = _extremes(segments)
    if first == last:
        return first
    beginning = _cut_run(_common_beginning(first, last), segments)
    # backwards, so that the common ending is a common beginning too
    rests = pc.utf8_reverse(pc.utf8_slice_codeunits(segments, len(beginning)))
    shortest = pc.min(pc.utf8_length(rests)).as_py()
    if not shortest:
        return PLACEHOLDER
    ending = _cut_run(_common_beginning(*_extremes(rests))[: shortest - 1], rests)
    return f"{beginning}{PLACEHOLDER}{ending[::-1]}"


def _common_beginning(one: str, other: str) -> str:
    for end, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return one[:end]
    return min(one, other, key=len)


def _extremes(texts: pa.Array) -> tuple[str, str]:
    """Return the first and the last text in order: what they have in common, all have."""
    bounds = pc.min_max(texts)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _cut_run(beginning: str, texts: pa.Array) -> str:
    """Return a common beginning without the run of digits or letters that goes on differently."""
    for characters in _CLASSES:
        if re.search(f"{characters}$", beginning):
            goes_on = pc.match_substring_regex(texts, f"^{re.escape(beginning)}{characters}")
            if pc.any(goes_on).as_py():
                return re.sub(f"{characters}+$", "", beginning)
    return beginning
