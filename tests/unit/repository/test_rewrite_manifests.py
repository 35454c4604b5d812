"""Rewriting manifests is a commit that changes files and nothing else."""

import pytest
from tests.builders import array_of, messages, repository_with_array, values
from tests.histories import InterruptingStorage

from icestream.errors import ConflictError, ErrorKind, InvalidInputError, SessionStateError
from icestream.model.config import RepositoryConfig
from icestream.model.manifest_conditions import (
    AnyDimCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage

DEFAULT_NOTE = {"split_sizes": [["any_array", [{"condition": "Any", "num_chunks": 2**32 - 1}]]]}


def manifests(repo: Repository) -> set[str]:
    return {file.id for file in repo.list_manifest_files(repo.lookup_branch("main"))}


@pytest.mark.parametrize("spec", [1, 2])
def test_all_manifests_are_new_and_values_are_not(spec):
    repo = repository_with_array(spec_version=spec)
    before = manifests(repo)
    made = repo.rewrite_manifests("tidy", branch="main", metadata={"by": "me"})
    assert made == repo.lookup_branch("main")
    assert not manifests(repo) & before
    assert len(manifests(repo)) == len(before)
    assert values(repo) == [0, 0, 0, 0]
    assert messages(repo) == ["tidy", "array", "Repository initialized"]
    newest = next(repo.ancestry(branch="main"))
    assert newest.metadata == {"by": "me", "__icechunk": {"splitting_config": DEFAULT_NOTE}}


def test_the_rules_in_force_are_noted():
    rules: dict[ManifestSplitCondition, dict[AnyDimCondition, int]] = {
        ManifestSplitCondition.name_matches("^t$"): {ManifestSplitDimCondition.Axis(0): 10},
    }
    config = RepositoryConfig(
        manifest=ManifestConfig(splitting=ManifestSplittingConfig.from_dict(rules))
    )
    repo = repository_with_array().reopen(config=config)
    repo.set_default_commit_metadata({"by": "default"})
    repo.rewrite_manifests("tidy", branch="main")
    assert next(repo.ancestry(branch="main")).metadata == {
        "by": "default",
        "__icechunk": {
            "splitting_config": {
                "split_sizes": [
                    [
                        {"name_matches": {"regex": "^t$"}},
                        [{"condition": {"Axis": 0}, "num_chunks": 10}],
                    ]
                ]
            }
        },
    }


def test_amending_replaces_the_newest_commit_and_keeps_its_changes():
    repo = repository_with_array()
    root = list(repo.ancestry(branch="main"))[-1].id
    before = repo.diff(from_snapshot_id=root, to_branch="main")
    repo.rewrite_manifests("tidy", branch="main", commit_method="amend")
    assert messages(repo) == ["tidy", "Repository initialized"]
    assert repo.diff(from_snapshot_id=root, to_branch="main") == before
    assert values(repo) == [0, 0, 0, 0]


def test_amending_needs_version_2():
    repo = repository_with_array(spec_version=1)
    with pytest.raises(SessionStateError) as caught:
        repo.rewrite_manifests("tidy", branch="main", commit_method="amend")
    assert caught.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION


def test_other_methods_are_refused_by_name():
    with pytest.raises(InvalidInputError, match="'rebase'"):
        repository_with_array().rewrite_manifests(
            "tidy",
            branch="main",
            commit_method="rebase",  # type: ignore[arg-type]  # that is the point
        )


def test_a_commit_made_meanwhile_wins():
    storage = InterruptingStorage(in_memory_storage())
    repo = repository_with_array(storage)
    other = Repository.open(storage.inner).writable_session("main")
    array_of(other)[0] = 9
    with (
        storage.interrupted("put", "manifests/", lambda: other.commit("meanwhile")),
        pytest.raises(ConflictError),
    ):
        repo.rewrite_manifests("tidy", branch="main")
    assert values(repo) == [9, 0, 0, 0]


async def test_the_async_twin_does_the_same():
    repo = repository_with_array()
    assert await repo.rewrite_manifests_async("tidy", branch="main") == repo.lookup_branch("main")
