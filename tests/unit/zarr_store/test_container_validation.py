"""Which locations `set_virtual_ref` takes: the examples of the design, one by one."""

import pytest
import zarr
from tests.builders import repository

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.repository.session import Session


def session_with(prefix: str | None) -> Session:
    """Return a session of a repository that has this container and no default ones."""
    config = RepositoryConfig()
    config.default_containers = False
    if prefix is not None:
        platform = "s3" if prefix == "models" else None
        config.set_virtual_chunk_container(
            VirtualChunkContainer.of(prefix=prefix, object_store=platform)
        )
    session = repository(config=config).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="f4")
    return session


@pytest.mark.parametrize(
    ("location", "prefix"),
    [
        ("s3://foo/bar.nc", "s3"),
        ("s3://foo/bar.nc", "s3://"),
        ("s3://foo/bar.nc", "s3://foo"),
        ("s3://foo/bar.nc", "s3://foo/bar.nc"),
        ("tigris://foo/bar.nc", "tigris"),
        ("models://foo/bar.nc", "models"),
    ],
)
def test_a_location_that_a_container_covers_is_set(location: str, prefix: str) -> None:
    session = session_with(prefix)

    session.store.set_virtual_ref("a/c/0", location, 0, 8, validate_containers=True)

    assert session.all_virtual_chunk_locations() == [location]


UNCOVERED = [("s3://foo/bar.nc", None), ("gcs://foo/bar.nc", "s3")]


@pytest.mark.parametrize(("location", "prefix"), UNCOVERED)
def test_a_location_that_no_container_covers_is_refused(location: str, prefix: str | None) -> None:
    session = session_with(prefix)

    with pytest.raises(InvalidInputError, match=f"covers {location}; add one with") as caught:
        session.store.set_virtual_ref("a/c/0", location, 0, 8, validate_containers=True)

    assert caught.value.kind is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    assert session.all_virtual_chunk_locations() == []


@pytest.mark.parametrize(("location", "prefix"), UNCOVERED)
def test_a_location_that_no_container_covers_is_set_without_validation(
    location: str, prefix: str | None
) -> None:
    session = session_with(prefix)

    session.store.set_virtual_ref("a/c/0", location, 0, 8, validate_containers=False)

    assert session.all_virtual_chunk_locations() == [location]
