"""Manifests that are loaded in the background as a session opens."""

import logging
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import zarr
from tests.builders import array_of, one_manifest_per_array, repository

from icestream.errors import NotFoundError
from icestream.model.config import CachingConfig, RepositoryConfig
from icestream.model.manifest_conditions import ManifestPreloadCondition
from icestream.model.manifest_config import ManifestConfig, ManifestPreloadConfig
from icestream.model.manifest_sets import ChunkManifests, ManifestPreload
from icestream.model.snapshots import Snapshot
from icestream.repository.background import BACKGROUND
from icestream.repository.preloading import chosen_manifests
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage, Loss, LossRule, LossyStorage, WrappedStorage

ARRAYS = {"lat": 3, "ocean/lat": 2, "ocean/time": 4, "time": 5, "values": 9}
"""Path to number of chunks; the manifest of each has as many references."""

condition = ManifestPreloadCondition


class GatedStorage(WrappedStorage):
    """Holds back reads of manifests until the gate is opened, and tells that there is one."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.gate = threading.Event()
        self.arrived = threading.Event()

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        if verb == "get" and path.startswith("manifests/"):
            self.arrived.set()
            assert self.gate.wait(10)
        return call()


class RemoteStorage(WrappedStorage):
    """A storage that is worth waiting for in the background."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.reads_inline = False


def filled() -> Storage:
    """Return a repository with one manifest per array."""
    storage = in_memory_storage()
    repo = repository(storage, config=one_manifest_per_array())
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    for path, chunks in ARRAYS.items():
        group.create_array(path, shape=(chunks,), chunks=(1,), dtype="i4")[:] = 1
    session.commit("arrays")
    repo.config.chunk_manifests = None
    repo.save_config()
    return storage


def by_path(*arrays: str, size: int = 100, count: int = 100) -> RepositoryConfig:
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests(preload=ManifestPreload(size, count, arrays))
    return config


def by_condition(
    found: ManifestPreloadCondition | None = None, refs: int | None = None, scan: int | None = None
) -> RepositoryConfig:
    preload = ManifestPreloadConfig(refs, found, scan)
    return RepositoryConfig(manifest=ManifestConfig(preload))


def snapshot_of(storage: Storage) -> Snapshot:
    copy = Repository.open(storage).readonly_session("main")._copy
    return copy.snapshot


def manifests_read(storage: CountingStorage) -> int:
    return sum(verb == "get" and path.startswith("manifests/") for verb, path in storage.log)


# -- what is chosen -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (by_path(".*/time"), ["ocean/time", "time"]),
        (by_path("/time"), ["time"]),
        (by_path("time"), []),
        (by_path(".*/time", ".*/lat"), ["ocean/time", "time", "lat", "ocean/lat"]),
        (by_path(".*/time", ".*/lat", count=3), ["ocean/time", "time", "lat"]),
        (by_path(".*", size=3), ["lat", "ocean/lat"]),
        (by_path(), []),
        (by_condition(), ["lat", "ocean/lat", "ocean/time", "time"]),
        (by_condition(condition.true()), list(ARRAYS)),
        (by_condition(condition.true(), scan=2), ["lat", "ocean/lat"]),
        (by_condition(condition.true(), refs=9), ["lat", "ocean/lat", "ocean/time"]),
        (by_condition(condition.true(), refs=8), ["lat", "ocean/lat"]),
        (by_condition(condition.true(), refs=0), []),
        (by_condition(condition.false()), []),
        (by_condition(condition.path_matches("^/ocean/")), ["ocean/lat", "ocean/time"]),
        (by_condition(condition.num_refs(4, 9)), ["ocean/time", "time"]),
        (by_condition(condition.true()).merge(by_path("/time")), ["time"]),
        (RepositoryConfig(), ["ocean/time", "lat", "ocean/lat", "time"]),
    ],
)
def test_manifests_are_chosen_by_the_configuration(config: RepositoryConfig, expected: list[str]):
    snapshot = snapshot_of(filled())

    wanted = [snapshot.get_array(f"/{path}").manifests[0].manifest_id for path in expected]

    assert chosen_manifests(snapshot, config) == wanted


def test_a_manifest_of_several_arrays_is_chosen_once():
    storage = in_memory_storage()
    repo = repository(storage)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    for path in ("lat", "time"):
        group.create_array(path, shape=(3,), chunks=(1,), dtype="i4")[:] = 1
    session.commit("arrays")
    snapshot = snapshot_of(storage)

    assert len(snapshot.manifest_files) == 1
    for config in (by_path(".*/time", ".*/lat", count=1), by_condition()):
        assert chosen_manifests(snapshot, config) == list(snapshot.manifest_files)


# -- when it happens ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["readonly", "writable", "tag", "snapshot", "remote"])
def test_a_session_has_its_manifests_in_memory_before_anybody_reads(kind: str):
    inner = filled()
    storage = CountingStorage(RemoteStorage(inner) if kind == "remote" else inner)
    repo = Repository.open(storage, by_path(".*/time"))
    tip = repo.lookup_branch("main")
    repo.create_tag("v1", tip)
    storage.reset()
    session = {
        "readonly": lambda: repo.readonly_session("main"),
        "writable": lambda: repo.writable_session("main"),
        "tag": lambda: repo.readonly_session(tag="v1"),
        "snapshot": lambda: repo.readonly_session(snapshot_id=tip),
        "remote": lambda: repo.readonly_session("main"),
    }[kind]()

    assert session.preload_finished(timeout=10)
    assert manifests_read(storage) == 2
    assert array_of(session, "ocean/time")[...].tolist() == [1] * 4
    assert manifests_read(storage) == 2
    assert sum(path.startswith("snapshots/") for _, path in storage.log) == 1


def test_opening_does_not_wait_and_a_read_shares_the_fetch():
    storage = GatedStorage(CountingStorage(filled()))
    repo = Repository.open(storage, by_path("/time"))

    session = repo.readonly_session("main")
    assert storage.arrived.wait(10)
    assert not session.preload_finished(timeout=0)
    array = array_of(session, "time")
    with ThreadPoolExecutor(8) as pool:
        reads = [pool.submit(array.__getitem__, ...) for _ in range(8)]
        storage.gate.set()
        found = [read.result(timeout=10).tolist() for read in reads]

    assert found == [[1] * 5] * 8
    assert session.preload_finished(timeout=10)
    assert isinstance(storage.inner, CountingStorage)
    assert manifests_read(storage.inner) == 1


def test_failures_are_logged_quietly_and_reading_tries_again(caplog):
    storage = LossyStorage(filled())
    repo = Repository.open(storage, by_path("/time"))
    storage.rule = LossRule("get", Loss.FAIL_BEFORE, path_prefix="manifests/")

    with caplog.at_level(logging.DEBUG, "icestream"):
        session = repo.readonly_session("main")
        assert session.preload_finished(timeout=10)

    assert storage.met == 1
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert array_of(session, "time")[...].tolist() == [1] * 5


@pytest.mark.parametrize(("wrap", "expected"), [(WrappedStorage, 0), (RemoteStorage, 4)])
def test_without_settings_coordinates_are_loaded_from_far_away_only(
    wrap: type[WrappedStorage], expected: int
):
    storage = CountingStorage(wrap(filled()))

    session = Repository.open(storage).readonly_session("main")

    assert session.preload_finished(timeout=10)
    assert manifests_read(storage) == expected


def test_preloading_can_be_switched_off():
    for config in (by_path(), by_condition(condition.false())):
        storage = CountingStorage(RemoteStorage(filled()))

        session = Repository.open(storage, config).readonly_session("main")

        assert session.preload_finished(timeout=10)
        assert manifests_read(storage) == 0


@pytest.mark.parametrize(("room", "expected"), [(0, 0), (6, 1), (11, 2)])
def test_no_more_is_loaded_than_the_cache_has_room_for(room: int, expected: int):
    storage = CountingStorage(filled())
    config = by_path("/time", ".*/time").merge(
        RepositoryConfig(caching=CachingConfig(num_chunk_refs=room))
    )

    session = Repository.open(storage, config).readonly_session("main")

    assert session.preload_finished(timeout=10)
    assert manifests_read(storage) == expected


def test_a_session_shows_what_is_there_although_the_guess_was_another():
    inner = filled()
    storage = RemoteStorage(inner)
    reader = Repository.open(storage, by_path(".*/time"))
    session = Repository.open(inner).writable_session("main")
    array_of(session, "time")[...] = 2
    newest = session.commit("another writer was there")

    session = reader.readonly_session("main")

    assert session.snapshot_id == newest
    assert session.preload_finished(timeout=10)
    assert array_of(session, "time")[...].tolist() == [2] * 5


def test_a_branch_that_is_gone_is_told_although_it_was_known():
    inner = filled()
    writer = Repository.open(inner)
    writer.create_branch("dev", writer.lookup_branch("main"))
    reader = Repository.open(RemoteStorage(inner))
    writer.delete_branch("dev")

    with pytest.raises(NotFoundError, match="dev"):
        reader.readonly_session("dev")


def test_a_snapshot_is_asked_for_while_the_branch_is_looked_up():
    """The second request for `repo` and the one for the snapshot are under way together."""
    meeting = threading.Barrier(2, timeout=10)

    class Meeting(WrappedStorage):
        armed = False

        def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
            if self.armed and (path == "repo" or path.startswith("snapshots/")):
                meeting.wait()
            return call()

    storage = Meeting(filled())
    storage.reads_inline = False
    repo = Repository.open(storage)
    storage.armed = True

    assert repo.readonly_session("main").preload_finished(timeout=10)


# -- other processes ------------------------------------------------------------------------------


def test_a_pickled_session_leaves_its_threads_behind():
    storage = GatedStorage(filled())
    session = Repository.open(storage, by_path("/time")).readonly_session("main")
    assert storage.arrived.wait(10)
    held = session._copy.context.assets.storage
    assert isinstance(held, GatedStorage)

    state = session.__getstate__()
    storage.gate.set()

    assert state["_preload"] is None
    assert session.preload_finished(timeout=10)


def test_a_session_comes_out_of_a_pickle_and_reads(tmp_path):
    from icestream.storage import local_filesystem_storage

    repo = Repository.create(local_filesystem_storage(str(tmp_path)), by_path("/a"))
    with repo.transaction("main", message="array") as store:
        zarr.create_array(store, name="a", shape=(2,), chunks=(1,), dtype="i4")[:] = 3

    copy = pickle.loads(pickle.dumps(repo.readonly_session("main")))

    assert copy.preload_finished(timeout=0)
    assert array_of(copy)[...].tolist() == [3, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_reads_while_its_parent_preloads():
    storage = GatedStorage(filled())
    session = Repository.open(storage, by_path("/time")).readonly_session("main")
    assert storage.arrived.wait(10)

    child = os.fork()
    if child == 0:
        # no thread opens the gate of the parent's request here, and nobody may wait for it
        storage.gate.set()
        found = session._copy.table(session._copy.get_array("/time"))
        os._exit(7 if session.preload_finished() and len(found) == 5 else 1)
    storage.gate.set()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert session.preload_finished(timeout=10)


def test_many_sessions_share_few_threads():
    repo = Repository.open(filled(), by_path(".*"))

    sessions = [repo.readonly_session("main") for _ in range(50)]

    assert all(session.preload_finished(timeout=10) for session in sessions)
    assert BACKGROUND.threads <= 4
