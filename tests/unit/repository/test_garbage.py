"""Garbage collection deletes what nothing uses, and never anything else."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import array_of, repository, repository_with_array, values
from tests.histories import (
    InterruptingStorage,
    all_values,
    logs_of_history,
    make_long_history,
    repo_infos,
    soon,
    write,
)

from icestream.errors import ConflictError, ErrorKind, InvalidInputError, ReadOnlyError
from icestream.errors import StorageError as IcestreamStorageError
from icestream.model.config import RepositoryConfig, RepoUpdateRetryConfig
from icestream.model.ops_log import GCRan, RepoAvailability, RepoStatus
from icestream.model.repo_info import RepoInfo
from icestream.model.storage_config import StorageRetriesSettings
from icestream.repository import garbage
from icestream.repository.garbage import GCSummary, is_older, plan_collection
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage
from icestream.storage.protocol import DeleteResult, ObjectInfo
from icestream.testing.doubles import CountingStorage, Loss, LossRule, LossyStorage, WrappedStorage

ALL_NATIVE = RepositoryConfig(inline_chunk_threshold_bytes=0)


def paths(repo: Repository) -> set[str]:
    return {info.path for info in repo.storage.list() if not info.path.startswith("overwritten/")}


def count_deleted(before: set[str], after: set[str]) -> Counter[str]:
    return Counter(path.partition("/")[0] for path in before - after)


@given(repo_infos(), st.integers(0, 2**12))
def test_every_plan_keeps_what_is_reachable_and_all_logs(info: RepoInfo, chosen: int):
    deletable = {i for n, i in enumerate(info.snapshots) if chosen >> n & 1}
    after = plan_collection(info, deletable)
    reachable = {
        entry.id
        for tip in (*info.branches.values(), *info.tags.values())
        for entry in info.ancestry(tip)
    }
    assert after.snapshots.keys() == info.snapshots.keys() - (deletable - reachable)
    assert (after.branches, after.tags) == (info.branches, info.tags)
    for entry in after.snapshots.values():
        assert entry.parent_id is None or entry.parent_id in after.snapshots
        assert logs_of_history(after, entry.id) == logs_of_history(info, entry.id)


@pytest.mark.parametrize("spec", [1, 2])
def test_garbage_goes_and_everything_that_is_used_stays(spec):
    repo = repository(spec_version=spec)
    middle = make_long_history(repo, spec=spec)
    repo.expire_snapshots(middle, delete_expired_branches=True)
    before, content = paths(repo), all_values(repo)
    told = repo.garbage_collect(soon(), dry_run=True)
    assert paths(repo) == before
    sizes = {info.path: info.size_bytes for info in repo.storage.list()}
    summary = repo.garbage_collect(soon())
    deleted = count_deleted(before, paths(repo))
    assert told == summary
    assert summary == GCSummary(
        bytes_deleted=sum(sizes[path] for path in before - paths(repo)),
        chunks_deleted=deleted["chunks"],
        manifests_deleted=deleted["manifests"],
        snapshots_deleted=deleted["snapshots"],
        transaction_logs_deleted=deleted["transactions"],
    )
    assert all(deleted[kind] for kind in ("chunks", "manifests", "snapshots", "transactions"))
    assert all_values(Repository.open(repo.storage)) == content
    assert repo.garbage_collect(soon()) == GCSummary()


def test_collecting_is_in_the_ops_log_and_logs_of_expired_snapshots_stay():
    repo = repository()
    middle = make_long_history(repo, spec=2)
    root = "1CECHNKREP0F1RSTCMT0"
    difference = repo.diff(from_snapshot_id=root, to_branch="main")
    repo.expire_snapshots(middle)
    repo.garbage_collect(soon())
    assert isinstance(next(repo.ops_log()).kind, GCRan)
    assert repo.diff(from_snapshot_id=root, to_branch="main") == difference


@pytest.mark.parametrize("spec", [1, 2])
def test_nothing_younger_than_the_moment_is_deleted(spec):
    repo = repository(spec_version=spec)
    moment = datetime.now(UTC) - timedelta(seconds=2)
    make_long_history(repo, spec=spec)
    before = paths(repo)
    repo.expire_snapshots(soon(), delete_expired_branches=True, delete_expired_tags=True)
    repo.garbage_collect(moment)
    assert {path for path in before - paths(repo) if not path.startswith("refs/")} == set()


@pytest.mark.parametrize("spec", [1, 2])
def test_what_forks_lost_races_and_failed_commits_leave_behind_is_collected(spec):
    memory = in_memory_storage()
    repo = repository_with_array(memory, spec_version=spec, config=ALL_NATIVE)
    clean = paths(repo)
    forked = repo.writable_session("main")
    array_of(forked)[0] = 1
    forked.fork()
    lossy = LossyStorage(memory)
    late = Repository.open(lossy).writable_session("main")
    array_of(late)[1] = 1
    lossy.rule = LossRule("put_if_version", Loss.FAIL_BEFORE)
    with pytest.raises(IcestreamStorageError):
        late.commit("late")
    orphans = count_deleted(paths(repo), clean)
    assert set(orphans) == {"chunks", "manifests", "snapshots", "transactions"}
    summary = repo.garbage_collect(soon())
    assert summary.snapshots_deleted == orphans["snapshots"] == 2
    assert paths(repo) == clean
    assert values(repo) == [0, 0, 0, 0]


def test_stray_files_are_left_alone():
    repo = repository_with_array()
    stray = ["chunks/lock", "chunks/" + "a" * 20, "chunks/" + "U" * 20, "chunks/" + "Z" * 20]
    stray += ["snapshots/1CECHNKREP0F1RSTCMT0.tmp", "manifests/sub/000G40R40M30E209185G", "other"]
    for path in stray:
        repo.storage.put(path, b"")
    repo.storage.put("chunks/ZZZZZZZZZZZZZZZZZZZG", b"an orphan")
    before = paths(repo)
    assert repo.garbage_collect(soon()).chunks_deleted == 1
    assert before - paths(repo) == {"chunks/ZZZZZZZZZZZZZZZZZZZG"}


def test_a_young_snapshot_whose_old_parent_goes_hangs_on_the_next_ancestor():
    repo = repository()
    first = write(repo, "main", 0)
    dropped = write(repo, "main", 1)
    moment = datetime.now(UTC)
    young = write(repo, "main", 2)
    repo.reset_branch("main", first)
    repo.garbage_collect(moment)
    assert [info.id for info in repo.ancestry(snapshot_id=young)][:2] == [young, first]
    assert dropped not in {s["id"] for s in repo.inspect_repo_info()["snapshots"]}
    log = repo.inspect_transaction_log(young)
    assert log["synthetic_composite"]["merged_pruned_ancestor_tx_logs"] == [dropped]


# -- others at work -------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "prefix"), [("get", "manifests/"), ("put", "overwritten/")])
def test_collecting_starts_over_if_somebody_commits_before_the_swap(verb, prefix):
    storage = InterruptingStorage(in_memory_storage())
    repo = repository_with_array(storage, config=ALL_NATIVE)
    writer = Repository.open(storage.inner, config=ALL_NATIVE).writable_session("main")
    array_of(writer)[:] = 5
    with storage.interrupted(verb, prefix, lambda: writer.commit("meanwhile")):
        repo.garbage_collect(soon())
    assert values(Repository.open(storage.inner)) == [5, 5, 5, 5]


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("prefix", ["snapshots/", "transactions/", "manifests/", "chunks/"])
def test_a_commit_made_while_objects_are_listed_keeps_its_chunks(spec, prefix):
    storage = InterruptingStorage(in_memory_storage())
    repo = repository_with_array(storage, spec_version=spec, config=ALL_NATIVE)
    for path in ("snapshots", "transactions", "manifests", "chunks"):
        storage.put(f"{path}/ZZZZZZZZZZZZZZZZZZZG", b"an orphan")
    writer = Repository.open(storage.inner, config=ALL_NATIVE).writable_session("main")
    array_of(writer)[:] = 5
    with storage.interrupted("list", prefix, lambda: writer.commit("meanwhile")):
        summary = repo.garbage_collect(soon())
    assert summary.chunks_deleted >= 1
    assert values(Repository.open(storage.inner)) == [5, 5, 5, 5]


@pytest.mark.parametrize("spec", [1, 2])
def test_commits_are_looked_for_before_each_round_of_deletions(spec, monkeypatch):
    monkeypatch.setattr(garbage, "_BATCH", 1)
    storage = InterruptingStorage(in_memory_storage())
    repo = repository_with_array(storage, spec_version=spec, config=ALL_NATIVE)
    storage.put("chunks/0000000000000000000G", b"an orphan, listed before the new chunks")
    writer = Repository.open(storage.inner, config=ALL_NATIVE).writable_session("main")
    array_of(writer)[:] = 5
    with storage.interrupted("delete_many", "chunks/0000", lambda: writer.commit("meanwhile")):
        repo.garbage_collect(soon(), max_concurrent_deletes=1)
    assert values(Repository.open(storage.inner)) == [5, 5, 5, 5]


class RestlessStorage(WrappedStorage):
    """Somebody changes the repository whenever a manifest is read."""

    def around(self, verb, path, call):
        if verb == "get" and path.startswith("manifests/"):
            Repository.open(self.inner).set_metadata({})
        return call()


def test_a_repository_that_never_rests_is_an_error():
    repo = repository_with_array()
    retries = StorageRetriesSettings(max_tries=2, initial_backoff_ms=1, max_backoff_ms=1)
    config = RepositoryConfig(repo_update_retries=RepoUpdateRetryConfig(retries))
    restless = Repository.open(RestlessStorage(repo.storage), config=config)
    with pytest.raises(ConflictError) as caught:
        restless.garbage_collect(soon())
    assert caught.value.kind is ErrorKind.REPO_INFO_UPDATED


# -- deleting -------------------------------------------------------------------------------------


class StubbornStorage(WrappedStorage):
    """Refuses to delete objects below a prefix."""

    stubborn = "transactions/"

    def delete_many(self, paths):
        wanted = list(paths)
        kept = {path: "no" for path in wanted if path.startswith(self.stubborn)}
        done = self.inner.delete_many([path for path in wanted if path not in kept])
        return DeleteResult(done.deleted, kept)


def test_failures_are_counted_and_what_depends_on_them_is_skipped():
    repo = repository()
    make_long_history(repo, spec=2)
    repo.expire_snapshots(soon(), delete_expired_branches=True)
    expected = repo.garbage_collect(soon(), dry_run=True)
    summary = Repository.open(StubbornStorage(repo.storage)).garbage_collect(soon())
    assert summary.snapshots_deleted == expected.snapshots_deleted > 0
    assert summary.objects_failed_to_delete == expected.transaction_logs_deleted > 0
    assert (summary.transaction_logs_deleted, summary.manifests_deleted) == (0, 0)
    assert summary.delete_errors == ["no"]
    assert summary.skipped_phases == ["manifests", "chunks"]
    again = repo.garbage_collect(soon())
    assert again.chunks_deleted == expected.chunks_deleted
    assert again.transaction_logs_deleted == expected.transaction_logs_deleted


def test_too_many_failures_in_a_row_are_an_error(monkeypatch):
    monkeypatch.setattr(garbage, "_BATCH", 1)
    repo = repository_with_array()
    for character in "0123":
        repo.storage.put(f"snapshots/{character * 19}0", b"an orphan")
    storage = LossyStorage(repo.storage, LossRule("delete_many", Loss.FAIL_BEFORE, last=99))
    broken = Repository.open(storage)
    with pytest.raises(IcestreamStorageError, match="3 requests in a row") as caught:
        broken.garbage_collect(soon(), max_consecutive_delete_failures=3)
    assert caught.value.kind is ErrorKind.GC_DELETES_FAILING
    assert broken.garbage_collect(soon()).objects_failed_to_delete == 4


def test_objects_are_deleted_in_bulk_and_manifests_read_once():
    storage = CountingStorage(in_memory_storage())
    repo = repository_with_array(storage, chunks=50, config=ALL_NATIVE)
    for value in range(3):
        session = repo.writable_session("main")
        array_of(session)[:] = value
        session.commit(str(value))
    repo.expire_snapshots(soon())
    storage.reset()
    assert repo.garbage_collect(soon(), max_snapshots_in_memory=1).chunks_deleted == 150
    assert storage.requests["delete_many"] == 3  # nothing but snapshots, manifests and chunks
    reads = [path for verb, path in storage.log if verb == "get" and "manifests/" in path]
    assert len(reads) == len(set(reads)) == 1


def test_small_limits_change_nothing_but_the_pace():
    repo = repository()
    make_long_history(repo, spec=2)
    expected = repo.garbage_collect(soon(), dry_run=True)
    summary = repo.garbage_collect(
        soon(),
        max_snapshots_in_memory=1,
        max_compressed_manifest_mem_bytes=1,
        max_concurrent_manifest_fetches=1,
        max_concurrent_deletes=1,
    )
    assert summary == expected


def test_a_time_in_whole_seconds_may_stand_for_a_younger_object():
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    half_second, second = timedelta(milliseconds=500), timedelta(seconds=1)
    whole, exact = (ObjectInfo("", 0, time) for time in (noon, noon + half_second))
    assert not is_older(whole, noon + half_second)
    assert is_older(whole, noon + second)
    assert not is_older(exact, noon + half_second)
    assert is_older(exact, noon + half_second + timedelta(microseconds=1))


def test_read_only_repositories_and_times_without_a_zone_are_refused():
    repo = repository_with_array()
    with pytest.raises(InvalidInputError, match="time zone"):
        repo.garbage_collect(datetime(2030, 1, 1))  # noqa: DTZ001  that is the point
    repo.set_status(RepoStatus(RepoAvailability.read_only))
    with pytest.raises(ReadOnlyError):
        repo.garbage_collect(soon())
    assert repo.garbage_collect(soon(), dry_run=True) == GCSummary()


async def test_the_async_twin_does_the_same():
    repo = repository()
    make_long_history(repo, spec=2)
    expected = repo.garbage_collect(soon(), dry_run=True)
    assert await repo.garbage_collect_async(soon()) == expected
    assert zarr.open_group(repo.readonly_session("main").store, mode="r")
