"""Expiring: snapshots older than a moment leave the history.

In format version 2 only the repo info changes. In version 1 the history is in the snapshot files:
the oldest one that stays is written anew, with the root of the history as its parent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icestream.model import ops_log
from icestream.model.ids import SnapshotId
from icestream.model.ops_log import UpdateType
from icestream.model.repo_info import MAIN_BRANCH, RepoInfo, SnapshotEntry
from icestream.repository.context import Context
from icestream.repository.pruning import prune
from icestream.repository.spec2 import RepoInfoTimeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirationRule:
    """What expires."""

    older_than: int
    """Microseconds since the epoch; a snapshot written at this moment stays."""
    delete_branches: bool = False
    """Delete branches, but never main, whose newest snapshot is older."""
    delete_tags: bool = False
    """Delete tags whose snapshot is older."""
    dry_run: bool = False


def expire(context: Context, rule: ExpirationRule) -> set[SnapshotId]:
    """Expire snapshots, and return those that left the history."""
    timeline = context.timeline
    if not rule.dry_run:
        context.assets.storage.check_conditional_writes()
    if not isinstance(timeline, RepoInfoTimeline):
        return _expire_refs(context, rule)
    if rule.dry_run:
        return set(_plan(timeline.load(), rule).released)
    plan: ExpirationPlan | None = None

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
        nonlocal plan
        plan = _plan(info, rule)
        return plan.info, ops_log.ExpirationRan()

    timeline.update(change)
    return set(plan.released) if plan is not None else set()


# -- format version 2 -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpirationPlan:
    """The snapshots that leave the history, and the repo info without them."""

    released: frozenset[SnapshotId]
    info: RepoInfo


def plan_expiration(
    info: RepoInfo, older_than: int, *, delete_branches: bool = False, delete_tags: bool = False
) -> ExpirationPlan:
    """Plan which snapshots expire; roots and the newest snapshot of main never do.

    Other branches and tags keep their snapshot, unless they may be deleted themselves.
    """
    expired = {
        entry.id
        for entry in info.snapshots.values()
        if entry.flushed_at < older_than and entry.parent_id is not None
    }
    branches = _without_expired(info.branches, expired if delete_branches else set())
    tags = _without_expired(info.tags, expired if delete_tags else set())
    branches[MAIN_BRANCH] = info.branch_tip(MAIN_BRANCH)
    # a deleted name protects nothing, but may share its snapshot with one that stays
    released = frozenset(expired - {*branches.values(), *tags.values()})
    pruned = prune(info, released, lambda ancestor: ancestor.parent_id is None)
    return ExpirationPlan(
        released,
        replace(
            pruned,
            branches=branches,
            tags=tags,
            deleted_tags=info.deleted_tags | (info.tags.keys() - tags.keys()),
        ),
    )


def _plan(info: RepoInfo, rule: ExpirationRule) -> ExpirationPlan:
    return plan_expiration(
        info,
        rule.older_than,
        delete_branches=rule.delete_branches,
        delete_tags=rule.delete_tags,
    )


def _without_expired(
    refs: Mapping[str, SnapshotId], expired: set[SnapshotId]
) -> dict[str, SnapshotId]:
    return {name: target for name, target in refs.items() if target not in expired}


# -- format version 1 -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RefExpirationPlan:
    """What expiring does to the history of one branch or tag."""

    released: frozenset[SnapshotId] = frozenset()
    adopted: SnapshotId | None = None
    """The snapshot to be written anew as a child of the root."""


def plan_ref_expiration(chain: Sequence[SnapshotEntry], older_than: int) -> RefExpirationPlan:
    """Plan what to release from a history, given newest first; its last entry is the root."""
    *younger, root = chain
    expired = [entry for entry in younger if entry.flushed_at < older_than]
    staying = [entry for entry in younger if entry.flushed_at >= older_than]
    if not expired:
        return RefExpirationPlan()
    adopted = staying[-1] if staying else chain[0]
    if adopted.parent_id == root.id:
        return RefExpirationPlan()
    return RefExpirationPlan(frozenset(entry.id for entry in expired), adopted.id)


def _expire_refs(context: Context, rule: ExpirationRule) -> set[SnapshotId]:
    """Expire the history of each tag, then of each branch: the order of the icechunk package."""
    timeline = context.timeline
    released: set[SnapshotId] = set()
    for tag, target in timeline.tags().items():
        chain = list(timeline.ancestry(target))
        released |= _expire_chain(context, chain, rule)
        if rule.delete_tags and _is_expired(chain, rule) and not rule.dry_run:
            timeline.delete_tag(tag)
    for branch, tip in timeline.branches().items():
        chain = list(timeline.ancestry(tip))
        released |= _expire_chain(context, chain, rule)
        deletable = rule.delete_branches and branch != MAIN_BRANCH
        if deletable and _is_expired(chain, rule) and not rule.dry_run:
            timeline.delete_branch(branch)
    return released


def _expire_chain(
    context: Context, chain: Sequence[SnapshotEntry], rule: ExpirationRule
) -> frozenset[SnapshotId]:
    plan = plan_ref_expiration(chain, rule.older_than)
    if plan.adopted is not None and not rule.dry_run:
        snapshot = context.assets.load_snapshot(plan.adopted)
        context.assets.save_snapshot(replace(snapshot, parent_id=chain[-1].id), spec=1)
    return plan.released


def _is_expired(chain: Sequence[SnapshotEntry], rule: ExpirationRule) -> bool:
    """Tell whether the newest snapshot is old; the root never is."""
    return len(chain) > 1 and chain[0].flushed_at < rule.older_than
