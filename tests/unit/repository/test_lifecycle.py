"""Creating, opening and configuring repositories."""

import icechunk
import pytest
import zarr
from tests.builders import array_of, repository, repository_with_array, values

from icestream import (
    CachingConfig,
    ChunkManifests,
    CompressionConfig,
    ManifestConfig,
    ManifestPreload,
    ManifestRule,
    ManifestSet,
    RepositoryConfig,
    StorageRetriesSettings,
    StorageSettings,
    VirtualChunkContainer,
    s3_store,
)
from icestream.assets.assets import Assets
from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    RepositoryNotFoundError,
    StorageError,
)
from icestream.repository.repository import Repository, SpecVersion
from icestream.storage import Storage, in_memory_storage, local_filesystem_storage
from icestream.storage.retries import RetryPolicy
from icestream.testing.doubles import CountingStorage, WrappedStorage

SPECS = pytest.mark.parametrize("spec", [1, 2])


@SPECS
def test_a_repository_is_created_once(spec):
    storage = in_memory_storage()
    assert not Repository.exists(storage)
    assert Repository.fetch_spec_version(storage) is None
    Repository.create(storage, spec_version=spec)

    assert Repository.exists(storage)
    assert Repository.fetch_spec_version(storage) is SpecVersion(spec)
    with pytest.raises(AlreadyExistsError):
        Repository.create(storage)


def test_opening_nothing_says_how_to_create_it():
    with pytest.raises(RepositoryNotFoundError, match=r"Repository\.create"):
        Repository.open(in_memory_storage())


def test_open_or_create_does_either():
    storage = in_memory_storage()
    Repository.open_or_create(storage)
    repo = Repository.open_or_create(storage)
    assert repo.spec_version is SpecVersion.v2


def test_a_place_with_other_objects_is_refused_unless_told(tmp_path):
    (tmp_path / "readme.txt").write_text("mine")
    storage = local_filesystem_storage(str(tmp_path))
    with pytest.raises(InvalidInputError, match="check_clean_root"):
        Repository.create(storage)
    Repository.create(storage, check_clean_root=False)
    assert (tmp_path / "readme.txt").read_text() == "mine"


class _Careless(WrappedStorage):
    def check_conditional_writes(self) -> None:
        raise StorageError("ignores preconditions", kind=ErrorKind.PRECONDITIONS_IGNORED)


def test_a_store_that_ignores_preconditions_is_refused_for_writing():
    memory = in_memory_storage()
    with pytest.raises(StorageError):
        Repository.create(_Careless(memory))
    repository_with_array(memory)
    repo = Repository.open(_Careless(memory))
    assert values(repo) == [0, 0, 0, 0]
    with pytest.raises(StorageError) as raised:
        repo.writable_session("main")
    assert raised.value.kind is ErrorKind.PRECONDITIONS_IGNORED


def some_config() -> RepositoryConfig:
    return RepositoryConfig(
        inline_chunk_threshold_bytes=100,
        compression=CompressionConfig(level=9),
        caching=CachingConfig(num_chunk_refs=10),
        manifest=ManifestConfig(),
    )


@SPECS
def test_a_configuration_is_stored_and_overridden_at_run_time(spec):
    storage = in_memory_storage()
    Repository.create(storage, some_config(), spec_version=spec)

    assert Repository.fetch_config(storage).inline_chunk_threshold_bytes == 100
    repo = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=7))
    assert repo.config.inline_chunk_threshold_bytes == 7
    assert repo.config.compression.level == 9
    assert Repository.fetch_config(storage).inline_chunk_threshold_bytes == 100
    assert repo.reopen().config.inline_chunk_threshold_bytes == 7
    other = repo.reopen(RepositoryConfig(inline_chunk_threshold_bytes=8))
    assert other.config.inline_chunk_threshold_bytes == 8


@SPECS
def test_nothing_is_stored_for_the_default_configuration(spec):
    storage = in_memory_storage()
    Repository.create(storage, spec_version=spec)
    assert Repository.fetch_config(storage) is None


@SPECS
def test_saving_a_configuration_over_one_that_was_not_seen_is_a_conflict(spec):
    storage = in_memory_storage()
    Repository.create(storage, some_config(), spec_version=spec)
    one, two = Repository.open(storage), Repository.open(storage)
    one.config.inline_chunk_threshold_bytes = 1
    two.config.inline_chunk_threshold_bytes = 2
    one.save_config()
    one.config.inline_chunk_threshold_bytes = 3
    one.save_config()
    with pytest.raises(ConflictError) as raised:
        two.save_config()

    assert raised.value.kind is ErrorKind.CONFIG_UPDATED
    assert Repository.fetch_config(storage).inline_chunk_threshold_bytes == 3
    earlier = [config.inline_chunk_threshold_bytes for config in one.config_history()]
    assert earlier == [1, 100]


def test_commits_between_reading_and_saving_a_configuration_do_not_matter():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    session.commit("in between")
    repo.config.inline_chunk_threshold_bytes = 1
    repo.save_config()

    assert Repository.fetch_config(repo.storage).inline_chunk_threshold_bytes == 1


def test_every_fault_of_a_configuration_is_named_before_anything_is_written():
    storage = in_memory_storage()
    config = RepositoryConfig(
        inline_chunk_threshold_bytes=-1, compression=CompressionConfig(level=300)
    )
    with pytest.raises(InvalidInputError) as raised:
        Repository.create(storage, config)

    assert "inline_chunk_threshold_bytes" in str(raised.value)
    assert "compression.level" in str(raised.value)
    assert not list(storage.list(""))


def test_saved_containers_are_not_dropped_by_accident():
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        VirtualChunkContainer("s3://bucket/", s3_store(region="us-east-1"))
    )
    repo = repository(config=config)
    repo.config.clear_virtual_chunk_containers()
    with pytest.raises(InvalidInputError, match="allow_container_removal"):
        repo.save_config()
    repo.save_config(allow_container_removal=True)
    assert not Repository.fetch_config(repo.storage).virtual_chunk_containers


def test_the_inline_threshold_decides_where_chunks_go():
    storage = in_memory_storage()
    repository_with_array(storage, config=RepositoryConfig(inline_chunk_threshold_bytes=0))
    assert len(list(storage.list("chunks/"))) == 4


def test_opening_costs_one_request_and_a_session_two():
    counting = CountingStorage(in_memory_storage())
    repository_with_array(counting)
    counting.reset()
    repo = Repository.open(counting)
    assert counting.log == [("get_versioned", "repo")]
    counting.reset()
    repo.readonly_session("main")
    assert [verb for verb, _ in counting.log] == ["get_versioned", "get"]


def test_a_commit_costs_few_requests():
    counting = CountingStorage(in_memory_storage())
    repository_with_array(counting)
    session = Repository.open(counting).writable_session("main")
    array_of(session)[0] = 1
    counting.reset()
    session.commit("one chunk")

    writes = [path.split("/")[0] for verb, path in counting.log if verb.startswith("put")]
    assert sorted(writes) == ["manifests", "overwritten", "repo", "snapshots", "transactions"]
    reads = [path for verb, path in counting.log if verb.startswith("get")]
    assert reads.count("repo") == 2


class _Patient(WrappedStorage):
    patience: RetryPolicy | None = None

    def with_retries(self, retry: RetryPolicy) -> Storage:
        self.patience = retry
        return self


def test_retries_given_at_open_reach_the_storage_and_stored_ones_do_not():
    storage = _Patient(in_memory_storage())
    Repository.create(storage)
    assert storage.patience is None
    retries = StorageRetriesSettings(max_tries=3, initial_backoff_ms=5)
    Repository.open(storage, RepositoryConfig(storage=StorageSettings(retries=retries)))

    assert storage.patience == RetryPolicy(
        max_tries=3, initial_backoff_s=0.005, max_backoff_s=180.0
    )


def _own_container() -> VirtualChunkContainer:
    """Return a container that icechunk cannot hold."""
    return VirtualChunkContainer.of(name="models", prefix="models", object_store="s3")


@SPECS
def test_settings_that_icechunk_drops_when_it_saves_are_restored(spec, tmp_path):
    storage = local_filesystem_storage(str(tmp_path))
    config = RepositoryConfig()
    config.set_virtual_chunk_container(_own_container())
    Repository.create(storage, config, spec_version=spec)
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    theirs.reopen(icechunk.RepositoryConfig(inline_chunk_threshold_bytes=77)).save_config()

    with pytest.warns(UserWarning, match="taken from a copy"):
        repo = Repository.open(storage)
    assert repo.config.get_virtual_chunk_container("models") == _own_container()
    assert repo.config.inline_chunk_threshold_bytes == 77
    repo.save_config()
    assert Repository.open(storage).config.get_virtual_chunk_container("models") is not None


@SPECS
def test_manifest_sets_are_stored_and_can_be_changed_for_one_process(spec, tmp_path):
    storage = local_filesystem_storage(str(tmp_path))
    config, given = RepositoryConfig(), RepositoryConfig()
    config.chunk_manifests = ChunkManifests((ManifestSet("small", 10, cardinality=None),))
    Repository.create(storage, config, spec_version=spec)
    given.chunk_manifests = ChunkManifests(preload=ManifestPreload(arrays=("/time",)))

    both = Repository.open(storage, given).config.chunk_manifests

    assert both == config.chunk_manifests.merge(given.chunk_manifests)
    assert Repository.open(storage).config.chunk_manifests == config.chunk_manifests


@SPECS
def test_manifest_sets_come_back_after_icechunk_saved_a_configuration(spec, tmp_path):
    storage = local_filesystem_storage(str(tmp_path))
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests((ManifestSet("small", 10, cardinality=None),))
    Repository.create(storage, config, spec_version=spec)
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    theirs.reopen(icechunk.RepositoryConfig(inline_chunk_threshold_bytes=77)).save_config()

    with pytest.warns(UserWarning, match="taken from a copy"):
        repo = Repository.open(storage)

    assert repo.config.chunk_manifests == config.chunk_manifests


def test_manifest_sets_with_faults_are_neither_used_nor_saved():
    repo = repository()
    faulty = RepositoryConfig()
    faulty.chunk_manifests = ChunkManifests(rules=(ManifestRule("nowhere"),))

    with pytest.raises(InvalidInputError, match=r"rules\[0\]\.target: there is no set 'nowhere'"):
        repo.reopen(faulty)
    with pytest.raises(InvalidInputError, match=r"rules\[0\]\.target"):
        Repository.create(in_memory_storage(), faulty)


def test_the_copy_of_settings_is_not_shown_among_the_metadata_and_survives_them():
    config = RepositoryConfig()
    config.set_virtual_chunk_container(_own_container())
    repo = repository(config=config)
    assert repo.get_metadata() == {}
    repo.set_metadata({"a": 1})
    assert repo.update_metadata({"b": 2}) == {"a": 1, "b": 2}
    assert repo.inspect_repo_info()["metadata"].keys() == {"a", "b", "icestream.config"}


def test_templates_make_locations_and_find_their_arguments():
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        VirtualChunkContainer.of(
            name="runs",
            object_store="s3",
            url_template="s3://bucket/runs/{}/out-{}.nc",
            default_template_arguments=["today", "0"],
        )
    )
    repo = repository(config=config)
    location = repo.template_location("runs", ["may", "7", "surplus"])

    assert repo.match_template("s3://bucket/runs/may/out-7.nc") == ("runs", ("may", "7"))
    assert repo.match_template("s3://bucket/other.nc") is None
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(2,), chunks=(1,), dtype="i1")
    session.store.set_virtual_ref("a/c/0", location, 0, 1)
    session.store.set_virtual_ref("a/c/1", repo.template_location("runs", [None]), 0, 1)
    assert session.all_virtual_chunk_locations() == [
        "s3://bucket/runs/may/out-7.nc",
        "s3://bucket/runs/today/out-0.nc",
    ]


def test_a_creation_that_was_cut_off_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = in_memory_storage()

    def cut_off(*_: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(Assets, "create_repo_info", cut_off)
        with pytest.raises(ConnectionError):
            Repository.create(storage)
    assert list(storage.list(""))
    Repository.create(storage)
    assert Repository.exists(storage)
