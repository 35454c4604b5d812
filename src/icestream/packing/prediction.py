"""What sets and splits cost: manifests, bytes, work per commit, and cold reads.

Sizes of files are estimates, from files that were measured. References and manifests are those
that packing would give now if all arrays were packed at once.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from icestream.model.ids import NodeId
from icestream.model.manifest_sets import DEFAULT_SET
from icestream.packing.assignment import Piece, assign
from icestream.packing.planned_pieces import PackingPlan, PlannedPieces, planned_pieces
from icestream.packing.workloads import Workload

SMALL_ARRAY_CHUNKS = 5000
"""Arrays with fewer chunks are coordinates, for what reading costs."""

_MANIFEST_BYTES = 200
_SNAPSHOT_BYTES = 600
_SNAPSHOT_BYTES_PER_ARRAY = 100
_SNAPSHOT_BYTES_PER_MANIFEST = 42
_REPO_BYTES_PER_COMMIT = 34
_REPO_BYTES_PER_EVENT = 34
_REPO_EVENTS = 1000
"""Of the ops log, older ones are in other files."""
_LOG_BYTES_PER_REFERENCE = 4


@dataclass(frozen=True, slots=True)
class CommitCost:
    """What an append writes, at most."""

    manifests: int
    """Manifests that are read and written anew, or new."""
    references: int
    """References in them."""
    num_bytes: int
    """Of these manifests, the snapshot, its transaction log and the repo object."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """What the first read of a chunk fetches before the chunk itself."""

    path: str
    requests: int
    """One after the other: the repo object, the snapshot, a manifest."""
    num_bytes: int
    references: int
    """In the manifest, all of them decoded."""


@dataclass(frozen=True, slots=True)
class SetUse:
    """The manifests of one set."""

    manifests: int = 0
    references: int = 0
    num_bytes: int = 0

    def __add__(self, other: "SetUse") -> "SetUse":
        return SetUse(
            self.manifests + other.manifests,
            self.references + other.references,
            self.num_bytes + other.num_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a workload costs under a plan."""

    sets: Mapping[str, SetUse]
    largest_manifest: int
    """References."""
    snapshot_bytes: int
    repo_bytes: int
    commit: CommitCost
    reads: tuple[ReadCost, ...]
    """For one chunk of each array, where that is in its largest manifest."""
    coordinate_read: ReadCost | None
    """The dearest of small arrays."""
    chunk_read: ReadCost | None
    """The dearest of all arrays."""

    @property
    def total(self) -> SetUse:
        """All manifests together."""
        return sum(self.sets.values(), SetUse())


def predict(workload: Workload, plan: PackingPlan) -> Prediction:
    """Return what a workload costs under a plan."""
    manifests = list(_manifests(workload, plan))
    sets: dict[str, SetUse] = defaultdict(SetUse)
    for manifest in manifests:
        sets[manifest.set_name] += manifest.use(workload.bytes_per_reference)
    count = sum(manifest.count for manifest in manifests)
    snapshot_bytes = (
        _SNAPSHOT_BYTES
        + _SNAPSHOT_BYTES_PER_ARRAY * len(workload.arrays)
        + _SNAPSHOT_BYTES_PER_MANIFEST * count
    )
    events = min(workload.commits, _REPO_EVENTS)
    repo_bytes = _REPO_BYTES_PER_COMMIT * workload.commits + _REPO_BYTES_PER_EVENT * events
    opening = snapshot_bytes + repo_bytes
    reads = _reads(workload, manifests, opening)
    small = {a.path for a in workload.arrays if a.metadata_chunks < SMALL_ARRAY_CHUNKS}
    return Prediction(
        sets=dict(sets),
        largest_manifest=max((manifest.references for manifest in manifests), default=0),
        snapshot_bytes=snapshot_bytes,
        repo_bytes=repo_bytes,
        commit=_commit_cost(workload, manifests, opening),
        reads=reads,
        coordinate_read=_dearest(read for read in reads if read.path in small),
        chunk_read=_dearest(reads),
    )


# -- manifests ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Manifests:
    """Manifests that are alike: one, or very many."""

    set_name: str
    arrays: tuple[NodeId, ...]
    references: int
    """In each."""
    touched: int
    """How many of them an append adds to."""
    headroom: int
    """References that it may add to each of these."""
    count: int = 1

    def use(self, bytes_per_reference: float) -> SetUse:
        """Return what they add up to."""
        size = _stored_bytes(self.references, bytes_per_reference)
        return SetUse(self.count, self.count * self.references, self.count * size)


def _manifests(workload: Workload, plan: PackingPlan) -> Iterator[_Manifests]:
    single: dict[Piece, PlannedPieces] = {}
    for number, array in enumerate(workload.arrays):
        for planned in planned_pieces(array, NodeId(number.to_bytes(8)), plan):
            if planned.count == 1:
                single[planned.piece] = planned
            else:
                yield _Manifests(
                    DEFAULT_SET,
                    (planned.piece.array,),
                    planned.piece.size,
                    planned.touched,
                    planned.headroom,
                    planned.count,
                )
    for packed in assign(list(single), plan.completed):
        content = [single[piece] for piece in packed.pieces]
        yield _Manifests(
            packed.set_name,
            tuple(piece.array for piece in packed.pieces),
            packed.size,
            max(planned.touched for planned in content),
            sum(planned.headroom for planned in content),
        )


def _commit_cost(workload: Workload, manifests: Sequence[_Manifests], opening: int) -> CommitCost:
    added = math.ceil(workload.references_per_append)
    references = sum(one.touched * (one.references + one.headroom) for one in manifests)
    references = max(references, added)
    count = sum(one.touched for one in manifests)
    num_bytes = (
        round(references * workload.bytes_per_reference)
        + _MANIFEST_BYTES * count
        + _LOG_BYTES_PER_REFERENCE * added
        + opening
    )
    return CommitCost(count, references, num_bytes)


def _reads(
    workload: Workload, manifests: Sequence[_Manifests], opening: int
) -> tuple[ReadCost, ...]:
    largest: dict[NodeId, int] = defaultdict(int)
    for manifest in manifests:
        for array in manifest.arrays:
            largest[array] = max(largest[array], manifest.references)
    return tuple(
        ReadCost(
            workload.arrays[int.from_bytes(array)].path,
            requests=3,
            num_bytes=opening + _stored_bytes(references, workload.bytes_per_reference),
            references=references,
        )
        for array, references in largest.items()
    )


def _dearest(reads: Iterable[ReadCost]) -> ReadCost | None:
    return max(reads, key=lambda read: read.num_bytes, default=None)


def _stored_bytes(references: int, bytes_per_reference: float) -> int:
    return _MANIFEST_BYTES + round(references * bytes_per_reference)
