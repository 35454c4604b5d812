"""Runs that are published once, however often they are cut off, and however many there are."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import zarr
from tests.publishing_builders import World, rows_of, run
from tests.unit.ledger.test_dataset_faults import DeadlyStorage, Killed

from icestream.errors import CommitUnknownError, ConflictError, IntegrityError
from icestream.ingest.publishing.checkpoints import last_checkpoint, load_checkpoint
from icestream.ingest.publishing.ledger_side import plan_run
from icestream.ingest.publishing.publish import RunOutput, publish
from icestream.ingest.publishing.recovery import follow_branch, recover
from icestream.ingest.publishing.rows import ROW_SCHEMA, FileStatus
from icestream.ingest.publishing.run_history import rows_of_run, run_history
from icestream.ingest.publishing.run_snapshots import METADATA_KEY
from icestream.ingest.publishing.steps import RunStep
from icestream.ledger import SetInfo
from icestream.repository.repository import Repository
from icestream.storage.protocol import Storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

INGESTED, SET_ASIDE = FileStatus.INGESTED.value, FileStatus.SET_ASIDE.value


def agree(world: World) -> None:
    """Ledger and repository tell of the same files, each once, and the chain is sound."""
    target = world.target()
    recorded = [url for url, status in world.recorded() if status == INGESTED]
    assert recorded == world.files()
    assert len(set(recorded)) == len(recorded)
    basis = recover(target)
    assert not basis.was_unfinished
    inventory = target.ledger.inventory
    assert target.ledger.ingest.verify(inputs=[inventory]).is_valid
    assert inventory.verify().is_valid


def killing(step: RunStep) -> Callable[[RunStep], None]:
    def after(done: RunStep) -> None:
        if done is step:
            raise Killed

    return after


def test_a_run_is_in_the_repository_and_in_the_ledger() -> None:
    world = World()
    target = world.target()

    first = run(target, "a", "b")
    second = run(target, "a", "b", "c")

    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert world.files() == ["a", "b", "c"]
    newest = next(target.repository.ancestry(branch="main"))
    assert newest.id == second.snapshot_id
    assert newest.metadata[METADATA_KEY] == {
        "archive": "sst",
        "block": str(second.block),
        "run": 2,
    }
    assert target.ledger.ingest.head == second.block
    agree(world)


def test_a_run_without_anything_to_tell_writes_nothing() -> None:
    world = World()
    run(world.target(), "a")
    head = world.target().ledger.ingest.head

    assert run(world.target(), "a") is None
    assert world.target().ledger.ingest.head == head


def test_a_run_whose_files_are_all_set_aside_advances_the_ledger_alone() -> None:
    world = World()
    run(world.target(), "a")
    tip = Repository.open(world.repository_storage).lookup_branch("main")

    published = run(world.target(), "a", "b", broken=True)

    assert published is not None
    assert published.snapshot_id is None
    assert Repository.open(world.repository_storage).lookup_branch("main") == tip
    assert world.recorded() == [("a", INGESTED), ("b", SET_ASIDE)]
    agree(world)
    again = run(world.target(), "a", "b", "c")
    assert again is not None
    assert again.number == 3
    agree(world)


@pytest.mark.parametrize("step", [RunStep.BLOCK_PREPARED, RunStep.COMMITTED, RunStep.HEAD_MOVED])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_run_that_is_killed_after_a_step_is_finished_or_repeated(
    step: RunStep, *, is_first: bool
) -> None:
    world = World()
    before = [] if is_first else ["a"]
    if before:
        run(world.target(), *before)

    with pytest.raises(Killed):
        run(world.target(), *before, "b", after_step=killing(step))
    basis = recover(world.target())
    run(world.target(), *before, "b")

    assert basis.was_unfinished == (step is RunStep.COMMITTED)
    assert world.files() == [*before, "b"]
    assert len(run_history(world.target())) == len(before) + 1
    agree(world)


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("broken", [True, False])
@pytest.mark.parametrize("side", ["ledger_storage", "repository_storage"])
def test_a_run_that_is_killed_at_any_write_is_finished_or_repeated(
    side: str, *, broken: bool, after: bool
) -> None:
    number = 0
    was_killed = True
    while was_killed:
        number += 1
        world = World()
        run(world.target(), "a")
        plain: Storage = getattr(world, side)
        target = _with(world, side, DeadlyStorage(plain, number, after=after)).target()
        try:
            run(target, "a", "b", broken=broken)
            was_killed = False
        except Killed:
            run(world.target(), "a", "b", broken=broken)

        assert world.recorded() == [("a", INGESTED), ("b", SET_ASIDE if broken else INGESTED)]
        assert world.files() == (["a"] if broken else ["a", "b"])
        agree(world)
    expected = 0 if broken and side == "repository_storage" else 2
    assert number > expected


def _with(world: World, side: str, storage: Storage) -> World:
    return World(
        **{
            "ledger_storage": world.ledger_storage,
            "repository_storage": world.repository_storage,
            side: storage,
        }
    )


def test_of_two_runs_at_once_the_second_fails_and_leaves_nothing() -> None:
    world = World()
    run(world.target(), "a")

    with pytest.raises(ConflictError, match="another run of the archive sst was published"):
        run(world.target(), "a", "b", before_publish=lambda: run(world.target(), "a", "b"))

    assert world.files() == ["a", "b"]
    agree(world)


def test_a_run_that_is_published_just_before_the_commit_of_another_wins() -> None:
    world = World()
    run(world.target(), "a")

    def rival(done: RunStep) -> None:
        if done is RunStep.BLOCK_PREPARED:
            run(world.target(), "a", "b")

    with pytest.raises(ConflictError, match="run again"):
        run(world.target(), "a", "b", after_step=rival)

    assert world.files() == ["a", "b"]
    agree(world)


def test_of_two_runs_without_commits_the_second_fails() -> None:
    world = World()
    run(world.target(), "a")

    def rival() -> object:
        return run(world.target(), "a", "b", broken=True)

    with pytest.raises(ConflictError, match="run again"):
        run(world.target(), "a", "b", broken=True, before_publish=rival)

    assert world.recorded() == [("a", INGESTED), ("b", SET_ASIDE)]
    agree(world)


@pytest.mark.slow
def test_many_runs_at_once_publish_every_file_once() -> None:
    world = World()
    world.target()  # creates both, so that none of them has to

    def runs(writer: int) -> int:
        """Run until there is nothing new; return how often another was first."""
        conflicts, turn = 0, 1
        while turn <= 4:
            urls = [f"f{n}" for n in range(turn)]
            try:
                run(world.target(), *urls, broken=(writer + turn) % 4 == 0)
                turn += 1
            except ConflictError:
                conflicts += 1
        return conflicts

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(runs, range(3)))

    agree(world)
    ledger = world.target().ledger
    assert {url for url, _ in world.recorded()} == {"f0", "f1", "f2", "f3"}
    numbers = [record.number for record in run_history(world.target())]
    assert numbers == list(range(len(numbers), 0, -1))
    last = last_checkpoint(ledger.ingest)
    assert last is not None
    assert last.number == len(numbers)


def test_commits_of_others_are_rebased_over_with_the_same_block() -> None:
    world = World()
    run(world.target(), "a")

    def others() -> None:
        session = Repository.open(world.repository_storage).writable_session("main")
        zarr.create_group(session.store, path="theirs")
        session.commit("not a run")

    published = run(world.target(), "a", "b", before_publish=others)

    assert published is not None
    assert world.files() == ["a", "b"]
    assert world.target().ledger.ingest.head == published.block
    agree(world)


def test_a_branch_that_moves_is_an_error_where_nothing_rebases() -> None:
    world = World()
    target = world.target()
    run(target, "a")
    basis, plan = recover(target), plan_run(target.ledger)
    calls = []

    def commit(_: object) -> str:
        calls.append(1)
        raise ConflictError("the branch moved")

    output = RunOutput(rows=ROW_SCHEMA.empty_table(), state=b"x", commit=commit)
    with pytest.raises(ConflictError, match="the branch moved"):
        publish(target, basis, plan, output)

    assert len(calls) == 1


def test_the_repository_decides_when_a_run_without_a_commit_takes_the_place_in_the_ledger() -> None:
    # two runs without a lease: each looks before the other is visible, then both go on
    world = World()
    run(world.target(), "a")
    has_looked, has_committed, has_moved = (threading.Event() for _ in range(3))

    def after_rival(done: RunStep) -> None:
        if done is RunStep.COMMITTED:  # it has nothing to commit, but has looked
            has_looked.set()
            assert has_committed.wait(10)

    def after(done: RunStep) -> None:
        if done is RunStep.COMMITTED:
            has_committed.set()
            assert has_moved.wait(10)

    def rival() -> None:
        run(world.target(), "a", "b", broken=True, after_step=after_rival)
        has_moved.set()

    def start_rival() -> None:
        pool.submit(rival)
        assert has_looked.wait(10)

    with ThreadPoolExecutor(1) as pool:
        published = run(world.target(), "a", "b", after_step=after, before_publish=start_rival)

    assert published is not None
    assert world.recorded() == [("a", INGESTED), ("b", INGESTED)]
    assert world.target().ledger.ingest.head == published.block
    agree(world)


def test_events_of_others_are_kept_behind_a_run_that_is_finished() -> None:
    world = World()
    run(world.target(), "a")
    with pytest.raises(Killed):
        run(world.target(), "a", "b", after_step=killing(RunStep.COMMITTED))
    world.target().ledger.ingest.append(SetInfo(description="sea surface temperature"))

    basis = recover(world.target())

    assert basis.was_unfinished
    info = world.target().ledger.ingest.state.info
    assert info is not None
    assert info.description == "sea surface temperature"
    assert world.recorded() == [("a", INGESTED), ("b", INGESTED)]
    agree(world)


def test_an_answer_to_a_commit_that_is_lost_is_found_out() -> None:
    world = World()
    run(world.target(), "a")
    target = world.target()
    session = target.repository.writable_session("main")
    zarr.open_group(session.store, mode="a").attrs["files"] = ["a", "b"]

    def commit(metadata: dict[str, object]) -> str:
        session.commit("run", metadata)
        raise CommitUnknownError("no answer")

    rows = rows_of(["b"], FileStatus.INGESTED)
    output = RunOutput(rows=rows, state=b"a,b", commit=commit)
    published = publish(target, recover(target), plan_run(target.ledger), output)

    assert published is not None
    assert published.snapshot_id == target.repository.lookup_branch("main")
    agree(world)


def test_a_commit_whose_outcome_stays_unknown_is_told() -> None:
    world = World()
    run(world.target(), "a")
    target = world.target()

    def commit(_: object) -> str:
        raise CommitUnknownError("no answer")

    output = RunOutput(rows=ROW_SCHEMA.empty_table(), state=b"x", commit=commit)
    with pytest.raises(CommitUnknownError):
        publish(target, recover(target), plan_run(target.ledger), output)

    agree(world)


def test_a_branch_that_was_moved_back_is_told_and_the_ledger_can_follow() -> None:
    world = World()
    first = run(world.target(), "a")
    run(world.target(), "a", "b")
    assert first is not None
    assert first.snapshot_id is not None
    repository = Repository.open(world.repository_storage)
    repository.reset_branch("main", first.snapshot_id)

    with pytest.raises(ConflictError, match=r"ends with run 1 .* knows run 2.*archive undo"):
        recover(world.target())
    basis = follow_branch(world.target())

    assert basis.next_number == 2
    run(world.target(), "a", "b")
    assert world.files() == ["a", "b"]
    agree(world)


def test_a_branch_without_any_run_of_those_that_the_ledger_knows_is_told() -> None:
    world = World()
    run(world.target(), "a")
    repository = Repository.open(world.repository_storage)
    *_, root = repository.ancestry(branch="main")
    repository.reset_branch("main", root.id)

    with pytest.raises(ConflictError, match="ends with no run"):
        recover(world.target())
    follow_branch(world.target())
    run(world.target(), "a")

    assert world.files() == ["a"]
    agree(world)


def test_runs_that_have_expired_are_no_runs_that_were_taken_back() -> None:
    world = World()
    run(world.target(), "a")
    repository = Repository.open(world.repository_storage)
    session = repository.writable_session("main")
    zarr.create_group(session.store, path="theirs")
    session.commit("not a run")
    newest = next(repository.ancestry(branch="main"))
    repository.expire_snapshots(older_than=newest.written_at)

    basis = recover(world.target())

    assert basis.newest is None
    assert basis.next_number == 2
    run(world.target(), "a", "b")
    assert world.files() == ["a", "b"]
    agree(world)


def test_a_block_that_is_missing_is_told_with_what_to_do() -> None:
    world = World()
    run(world.target(), "a")
    fresh = World(repository_storage=world.repository_storage)

    with pytest.raises(IntegrityError, match="not the one that the run was recorded in"):
        recover(fresh.target())


def test_the_head_is_moved_although_the_answer_is_lost() -> None:
    world = World()
    run(world.target(), "a")
    lossy = LossyStorage(world.ledger_storage)
    target = World(lossy, world.repository_storage).target()

    def lose(done: RunStep) -> None:
        if done is RunStep.COMMITTED:
            lossy.rule = LossRule("put_if_version", Loss.LOSE_ANSWER)

    published = run(target, "a", "b", after_step=lose)

    assert published is not None
    agree(world)


def test_the_history_of_runs_counts_files_by_status() -> None:
    world = World()
    first = run(world.target(), "a", "b")
    second = run(world.target(), "a", "b", "c", broken=True)
    assert first is not None
    assert second is not None

    target = world.target()
    newest, oldest = run_history(target)

    assert (newest.number, newest.counts, newest.snapshot_id) == (2, {SET_ASIDE: 1}, None)
    assert (oldest.number, oldest.counts, oldest.references) == (1, {INGESTED: 2}, 4)
    assert oldest.snapshot_id == first.snapshot_id
    assert rows_of_run(target.ledger.ingest, first.block)["url"].to_pylist() == ["a", "b"]
    assert rows_of_run(target.ledger.ingest, second.block)["url"].to_pylist() == ["c"]


def test_the_state_before_and_after_any_run_can_be_loaded() -> None:
    world = World()
    first = run(world.target(), "a")
    run(world.target(), "a", "b", broken=True)
    assert first is not None

    ingest = world.target().ledger.ingest
    before, after = load_checkpoint(ingest, first.block), last_checkpoint(ingest)

    assert before is not None
    assert after is not None
    assert (before.number, before.state, before.has_commit) == (1, b"a", True)
    assert (after.number, after.state, after.has_commit) == (2, b"a", False)
    assert after.last_commit == 1
    assert load_checkpoint(ingest, 0) is None
