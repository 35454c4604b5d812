"""Servers for the whole run, started when the first test asks for them; hypothesis profiles."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from icestream.storage import Storage, azure_storage, s3_storage
from icestream.testing import servers

# of the user, not of the clone: what npm brings takes minutes
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "icestream"

settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile(
    "ci", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.S3Server]:
    """A SeaweedFS: checks credentials, honours preconditions, keeps its data on disk."""
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.S3Server]:
    """A moto: an S3 in Python that takes any credentials."""
    with servers.moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.AzureServer]:
    """An Azurite, where node is present."""
    if not servers.can_run_azurite():
        pytest.skip("azurite needs node and npm")
    with servers.azurite(tmp_path_factory.mktemp("azurite"), _CACHE) as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.GcsServer]:
    """A fake-gcs-server: reads, no conditions, any credentials."""
    with servers.fake_gcs_server(tmp_path_factory.mktemp("fake-gcs-server")) as server:
        yield server


@pytest.fixture(scope="session")
def caddy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.WebServer]:
    """A Caddy, which serves files with ranges and conditions."""
    with servers.caddy(tmp_path_factory.mktemp("caddy")) as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs_bucket(seaweedfs: servers.S3Server) -> str:
    """One bucket for all tests: each one takes a few of the server's volumes."""
    return seaweedfs.new_bucket()


@pytest.fixture
def seaweedfs_storage(seaweedfs: servers.S3Server, seaweedfs_bucket: str) -> Storage:
    """An empty storage on SeaweedFS."""
    return s3_storage(
        bucket=seaweedfs_bucket, prefix=f"repo-{uuid4().hex}", **seaweedfs.storage_arguments()
    )


@pytest.fixture
def moto_storage(moto: servers.S3Server) -> Storage:
    """An empty storage on moto."""
    return s3_storage(bucket=moto.new_bucket(), prefix="repo", **moto.storage_arguments())


@pytest.fixture
def azurite_storage(azurite: servers.AzureServer) -> Storage:
    """An empty storage on Azurite."""
    return azure_storage(
        container=azurite.new_container(),
        prefix="repo",
        access_key=azurite.access_key,
        **azurite.storage_arguments(),
    )
