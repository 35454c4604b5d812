"""Status, metadata, features and the ops log."""

import pytest
from tests.builders import array_of, repository, repository_with_array, values

from icestream import RepoAvailability, RepositoryConfig, RepoStatus, UpdateType
from icestream.errors import ErrorKind, InvalidInputError, ReadOnlyError, SessionStateError
from icestream.repository.repository import Repository


def test_a_read_only_repository_refuses_writers_until_it_is_opened_again():
    repo = repository_with_array()
    started = repo.writable_session("main")
    array_of(started)[0] = 1
    repo.set_status(RepoStatus(RepoAvailability.read_only, limited_availability_reason="moving"))

    assert repo.status.availability is RepoAvailability.read_only
    assert values(repo) == [0, 0, 0, 0]
    for write in (
        lambda: repo.writable_session("main"),
        lambda: started.commit("x"),
        lambda: repo.create_branch("x", repo.lookup_branch("main")),
        lambda: repo.set_metadata({"a": 1}),
    ):
        with pytest.raises(ReadOnlyError, match="moving"):
            write()
    repo.set_status(RepoStatus(RepoAvailability.online))
    started.commit("x")
    assert values(repo)[0] == 1


def test_metadata_is_replaced_or_updated():
    repo = repository()
    assert repo.get_metadata() == {}
    repo.set_metadata({"title": "Klima ä", "nested": {"list": [1, 2.5, None, True, "x"]}})
    assert repo.update_metadata({"title": "other"}) == {
        "title": "other",
        "nested": {"list": [1, 2.5, None, True, "x"]},
    }
    assert Repository.open(repo.storage).metadata["title"] == "other"


def test_features_are_switched_and_checked():
    repo = repository_with_array()
    tip = repo.lookup_branch("main")
    assert {flag.name for flag in repo.enabled_feature_flags()} == {
        "move_node",
        "create_tag",
        "delete_tag",
    }
    repo.set_feature_flag("create_tag", setting=False)
    repo.set_feature_flag("move_node", setting=False)
    assert [flag.name for flag in repo.disabled_feature_flags()] == ["move_node", "create_tag"]
    for use in (lambda: repo.create_tag("t", tip), lambda: repo.rearrange_session("main")):
        with pytest.raises(SessionStateError) as raised:
            use()
        assert raised.value.kind is ErrorKind.FEATURE_FLAG_DISABLED
    repo.set_feature_flag("create_tag", setting=None)
    repo.create_tag("t", tip)
    repo.set_feature_flag("delete_tag", setting=False)
    with pytest.raises(SessionStateError):
        repo.delete_tag("t")
    with pytest.raises(InvalidInputError, match="move_node"):
        repo.set_feature_flag("nope", setting=True)


def test_a_move_is_refused_when_the_feature_is_switched_off_before_the_commit():
    repo = repository_with_array()
    session = repo.rearrange_session("main")
    session.move("/a", "/b")
    repo.set_feature_flag("move_node", setting=False)
    with pytest.raises(SessionStateError):
        session.commit("moved")


def test_the_ops_log_tells_everything_newest_first():
    repo = repository_with_array()
    tip = repo.lookup_branch("main")
    repo.create_branch("dev", tip)
    repo.reset_branch("dev", tip)
    repo.delete_branch("dev")
    repo.create_tag("t", tip)
    repo.delete_tag("t")
    repo.set_metadata({})
    repo.set_feature_flag("move_node", setting=True)
    repo.set_status(RepoStatus(RepoAvailability.online))
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    session.amend("amended")
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    session.flush("aside")
    repo.config.inline_chunk_threshold_bytes = 7
    repo.save_config()

    kinds = [type(update.kind) for update in repo.ops_log()]
    assert kinds == [
        UpdateType.ConfigChanged,
        UpdateType.NewDetachedSnapshot,
        UpdateType.CommitAmended,
        UpdateType.RepoStatusChanged,
        UpdateType.FeatureFlagChanged,
        UpdateType.MetadataChanged,
        UpdateType.TagDeleted,
        UpdateType.TagCreated,
        UpdateType.BranchDeleted,
        UpdateType.BranchReset,
        UpdateType.BranchCreated,
        UpdateType.NewCommit,
        UpdateType.RepoInitialized,
    ]
    times = [update.updated_at for update in repo.ops_log()]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)


def test_the_ops_log_goes_on_in_backups():
    config = RepositoryConfig(num_updates_per_repo_info_file=3)
    repo = repository(config=config)
    for i in range(10):
        repo.set_metadata({"i": i})

    assert len(repo.inspect_repo_info()["latest_updates"]) == 3
    assert len(list(repo.ops_log())) == 11


@pytest.mark.parametrize(
    "use",
    [
        lambda repo: repo.set_metadata({}),
        lambda repo: repo.get_status(),
        lambda repo: repo.feature_flags(),
        lambda repo: list(repo.ops_log()),
        lambda repo: repo.rearrange_session("main"),
    ],
    ids=["metadata", "status", "flags", "ops log", "moves"],
)
def test_version_one_says_that_it_has_no_such_thing(use):
    repo = repository_with_array(spec_version=1)
    with pytest.raises(SessionStateError, match="upgrade") as raised:
        use(repo)
    assert raised.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION


def test_amend_needs_version_two():
    repo = repository_with_array(spec_version=1)
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    with pytest.raises(SessionStateError) as raised:
        session.amend("x")
    assert raised.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION
    session.commit("works")
