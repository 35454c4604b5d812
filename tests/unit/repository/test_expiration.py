"""Old snapshots leave the history; nothing that stays loses anything."""

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import messages, repository
from tests.histories import (
    all_values,
    history,
    logs_of_history,
    make_long_history,
    repo_infos,
    snapshot_id,
    soon,
    write,
)

from icestream.errors import InvalidInputError, ReadOnlyError
from icestream.model.ids import INITIAL_SNAPSHOT_ID, id_text
from icestream.model.ops_log import ExpirationRan, RepoAvailability, RepoStatus
from icestream.model.repo_info import RepoInfo, SnapshotEntry
from icestream.repository.expiration import plan_expiration, plan_ref_expiration
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

MOMENTS = st.integers(0, 130)
DELETIONS = {"delete_branches": st.booleans(), "delete_tags": st.booleans()}


@given(repo_infos(), MOMENTS, st.fixed_dictionaries(DELETIONS))
def test_every_plan_keeps_what_must_stay(info: RepoInfo, moment: int, deletions: dict[str, bool]):
    plan = plan_expiration(info, moment, **deletions)
    after = plan.info
    assert after.snapshots.keys() == info.snapshots.keys() - plan.released
    assert INITIAL_SNAPSHOT_ID in after.snapshots
    assert after.branches["main"] == info.branches["main"]
    assert {*after.branches.values(), *after.tags.values()} <= after.snapshots.keys()
    assert all(info.snapshots[i].flushed_at < moment for i in plan.released)
    for entry in after.snapshots.values():
        assert entry.parent_id is None or entry.parent_id in after.snapshots
        assert logs_of_history(after, entry.id) == logs_of_history(info, entry.id)


@given(repo_infos(), MOMENTS, st.fixed_dictionaries(DELETIONS))
def test_only_names_of_old_snapshots_are_deleted_and_only_if_asked(
    info: RepoInfo, moment: int, deletions: dict[str, bool]
):
    plan = plan_expiration(info, moment, **deletions)
    lost_branches = info.branches.keys() - plan.info.branches.keys()
    lost_tags = info.tags.keys() - plan.info.tags.keys()
    old = {i for i, e in info.snapshots.items() if e.flushed_at < moment and e.parent_id}
    assert lost_branches == (
        {n for n, i in info.branches.items() if i in old and n != "main"}
        if deletions["delete_branches"]
        else set()
    )
    assert lost_tags == (
        {n for n, i in info.tags.items() if i in old} if deletions["delete_tags"] else set()
    )
    assert plan.info.deleted_tags == info.deleted_tags | lost_tags


@given(repo_infos(), MOMENTS)
def test_expiring_again_releases_nothing(info: RepoInfo, moment: int):
    once = plan_expiration(info, moment)
    again = plan_expiration(once.info, moment)
    assert (again.released, again.info) == (frozenset(), once.info)


def entry(number: int, parent: int | None) -> SnapshotEntry:
    parent_id = None if parent is None else snapshot_id(parent)
    return SnapshotEntry(id=snapshot_id(number), parent_id=parent_id, flushed_at=number, message="")


@pytest.mark.parametrize(
    ("newest", "moment", "released", "adopted"),
    [
        (3, 0, set(), None),
        (3, 1, set(), None),
        (3, 2, {1}, 2),
        (3, 3, {1, 2}, 3),
        (3, 4, {1, 2, 3}, 3),  # all are old: the newest stays, as a child of the root
        (1, 2, set(), None),  # it is a child of the root already
        (0, 9, set(), None),
    ],
)
def test_a_chain_of_version_1_is_cut_below_its_oldest_young_snapshot(
    newest, moment, released, adopted
):
    chain = [entry(number, number - 1) for number in range(newest, 0, -1)]
    plan = plan_ref_expiration([*chain, entry(0, None)], moment)
    assert plan.released == {snapshot_id(number) for number in released}
    assert plan.adopted == (None if adopted is None else snapshot_id(adopted))


@pytest.mark.parametrize("spec", [1, 2])
def test_expired_snapshots_leave_the_history_and_values_stay(spec):
    repo = repository(spec_version=spec)
    middle = make_long_history(repo, spec=spec)
    before, tips = all_values(repo), {k: h[0][0] for k, h in history(repo).items()}
    released = repo.expire_snapshots(middle)
    after = history(Repository.open(repo.storage))
    assert released
    assert all_values(Repository.open(repo.storage)) == before
    assert {k: h[0][0] for k, h in after.items()} == tips
    assert messages(repo)[-2:] == [
        "commit 21 on main" if spec == 1 else "amend 22 on main",
        "Repository initialized",
    ]
    if spec == 2:
        listed = {s["id"] for s in repo.inspect_repo_info()["snapshots"]}
        assert not released & listed
        assert repo.inspect_repo_info()["latest_updates"][0]["update_type"] == {
            "type": "ExpirationRanUpdate"
        }


@pytest.mark.parametrize("spec", [1, 2])
def test_a_dry_run_tells_the_same_and_changes_nothing(spec):
    repo = repository(spec_version=spec)
    middle = make_long_history(repo, spec=spec)
    before = {o.path: o.version for o in repo.storage.list()}
    options = {"delete_expired_branches": True, "delete_expired_tags": True}
    told = repo.expire_snapshots(middle, dry_run=True, **options)
    assert {o.path: o.version for o in repo.storage.list()} == before
    assert told == repo.expire_snapshots(middle, **options)


@pytest.mark.parametrize("spec", [1, 2])
def test_old_branches_and_tags_go_if_asked_and_main_and_the_root_stay(spec):
    repo = repository(spec_version=spec)
    make_long_history(repo, spec=spec)
    root = id_text(INITIAL_SNAPSHOT_ID)
    repo.create_branch("at-root", root)
    repo.create_tag("of-root", root)
    repo.expire_snapshots(soon(), delete_expired_branches=True)
    assert repo.list_branches() == {"main", "at-root"}
    assert repo.list_tags() == {"middle", "of-root"}
    repo.expire_snapshots(soon(), delete_expired_tags=True)
    assert repo.list_tags() == {"of-root"}
    with pytest.raises(Exception, match="deleted"):
        repo.create_tag("middle", root)


def test_diff_over_expired_snapshots_still_shows_all_changes():
    repo = repository()
    middle = make_long_history(repo, spec=2)
    root = id_text(INITIAL_SNAPSHOT_ID)
    before = repo.diff(from_snapshot_id=root, to_branch="main")
    repo.expire_snapshots(middle)
    assert repo.diff(from_snapshot_id=root, to_branch="main") == before


def test_a_lost_answer_does_not_hide_what_was_released():
    repo = repository()
    middle = make_long_history(repo, spec=2)
    expected = repo.expire_snapshots(middle, dry_run=True)
    lossy = LossyStorage(repo.storage, LossRule("put_if_version", Loss.LOSE_ANSWER))
    assert Repository.open(lossy).expire_snapshots(middle) == expected
    events = [type(update.kind) for update in repo.ops_log()]
    assert events.count(ExpirationRan) == 1


def test_a_read_only_repository_and_a_time_without_zone_are_refused():
    repo = repository(in_memory_storage())
    write(repo, "main", 1)
    with pytest.raises(InvalidInputError, match="time zone"):
        repo.expire_snapshots(datetime(2030, 1, 1))  # noqa: DTZ001  that is the point
    repo.set_status(RepoStatus(RepoAvailability.read_only))
    with pytest.raises(ReadOnlyError):
        repo.expire_snapshots(soon())


async def test_the_async_twin_does_the_same():
    repo = repository()
    middle = make_long_history(repo, spec=2)
    expected = repo.expire_snapshots(middle, dry_run=True)
    assert await repo.expire_snapshots_async(middle) == expected
    assert json.dumps(await repo.inspect_repo_info_async())
