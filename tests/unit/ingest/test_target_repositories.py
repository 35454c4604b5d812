"""The repository that an archive becomes gets what the declaration asks for."""

import pytest
from tests.ingest_builders import archive

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.archives import Target
from icestream.ingest.target_repositories import open_target
from icestream.storage.memory import InMemoryStorage


def containers(storage: InMemoryStorage, **declared) -> list[tuple[str | None, str]]:
    repository = open_target(archive(**declared), storage)
    found = repository.config.list_virtual_chunk_containers()
    return [(container.name, container.url_prefix) for container in found]


def test_every_prefix_of_sources_gets_a_container_once():
    storage, sources = InMemoryStorage(), ("s3://a/x/*.nc", "s3://b/y/", "s3://a/x/*.nc4")
    both = [(None, "s3://a/x/"), (None, "s3://b/y/")]
    assert containers(storage, sources=sources) == both
    assert containers(storage, sources=sources) == both


def test_a_container_gets_the_name_that_is_declared():
    storage = InMemoryStorage()
    assert containers(storage, container="sst") == [("sst", "s3://b/")]
    assert containers(storage, container="sst") == [("sst", "s3://b/")]


def test_a_named_container_that_covers_other_places_is_refused():
    storage = InMemoryStorage()
    containers(storage, container="sst")
    with pytest.raises(InvalidInputError, match="container sst is for s3://b/, which does not"):
        containers(storage, container="sst", sources=("s3://c/",))


def test_a_name_that_another_container_stands_in_the_way_of_is_refused():
    storage = InMemoryStorage()
    containers(storage, container="sst")
    with pytest.raises(InvalidInputError, match=r"no container winds: .*name: sst"):
        containers(storage, container="winds")


def test_one_name_for_several_prefixes_is_refused():
    with pytest.raises(InvalidInputError, match="one container sst cannot cover"):
        containers(InMemoryStorage(), container="sst", sources=("s3://a/", "s3://b/"))


def test_a_branch_that_is_not_there_is_made():
    target = Target(repository="repo", branch="nightly")
    repository = open_target(archive(target=target), InMemoryStorage())
    assert repository.list_branches() == {"main", "nightly"}
