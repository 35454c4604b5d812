from dataclasses import replace

import pytest

from icestream.errors import SnapshotNotFoundError
from icestream.model import ops_log
from icestream.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId, new_snapshot_id
from icestream.model.repo_info import SnapshotEntry, initial_repo_info


def entry(parent: SnapshotId) -> SnapshotEntry:
    return SnapshotEntry(id=new_snapshot_id(), parent_id=parent, flushed_at=1, message="m")


def test_updates_return_other_values():
    info = initial_repo_info(1)
    child = entry(INITIAL_SNAPSHOT_ID)
    changed = info.with_snapshot(child).with_branch("main", child.id)

    assert info.branch_tip("main") == INITIAL_SNAPSHOT_ID
    assert [e.id for e in changed.ancestry(child.id)] == [child.id, INITIAL_SNAPSHOT_ID]


def test_a_branch_points_at_a_known_snapshot():
    with pytest.raises(SnapshotNotFoundError):
        initial_repo_info(1).with_branch("main", new_snapshot_id())


def test_a_loop_in_the_history_ends():
    info = initial_repo_info(1)
    one = entry(INITIAL_SNAPSHOT_ID)
    two = entry(one.id)
    looped = info.with_snapshots([replace(one, parent_id=two.id), two])
    assert len(list(looped.ancestry(two.id))) == 2


def test_trap_8_the_newest_update_has_no_backup_and_times_increase():
    info = initial_repo_info(100)
    for now in (50, 50, 200):
        info = info.logged(ops_log.GCRan(), now=now, backup_path=f"b{now}", keep=1000)

    times = [update.updated_at_micros for update in info.latest_updates]
    assert times == [200, 102, 101, 100]
    assert [u.backup_path for u in info.latest_updates] == [None, "b200", "b50", "b50"]


def test_a_long_log_goes_on_in_the_backup_of_its_first_dropped_entry():
    info = initial_repo_info(1)
    for i in range(5):
        info = info.logged(ops_log.GCRan(), now=10 + i, backup_path=f"b{i}", keep=3)

    assert len(info.latest_updates) == 3
    # the state in which the first dropped entry was the newest
    assert info.repo_before_updates == "b2"


def test_entries_without_a_backup_are_never_dropped():
    """Entries made by an upgrade have no backup: nothing could be read in their place."""
    info = replace(
        initial_repo_info(1),
        latest_updates=tuple(ops_log.Update(ops_log.GCRan(), t) for t in (5, 4, 3, 2)),
    )
    info = info.logged(ops_log.GCRan(), now=9, backup_path="b", keep=2)
    assert len(info.latest_updates) == 5
    assert info.repo_before_updates is None
