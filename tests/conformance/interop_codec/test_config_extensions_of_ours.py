"""Repositories with settings that icechunk does not know open there as ever."""

from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.model.extension_config import LocationCompressionRule
from icestream.repository.repository import Repository
from icestream.storage.factories import local_filesystem_storage

of = VirtualChunkContainer.of


def extended_config(folder: Path) -> RepositoryConfig:
    config = RepositoryConfig(max_concurrent_requests=7)
    config.default_containers = False
    config.location_compression_rules = (LocationCompressionRule(enabled=False),)
    for container in (
        of(name="models", prefix="models", object_store="s3"),
        of(prefix="s3", region="sa-east-1"),
        of(name="t", object_store="gcs", url_template="gs://b/{}/{}.nc"),
        of(name="native", prefix=f"file://{folder}/"),
    ):
        config.set_virtual_chunk_container(container)
    return config


@pytest.mark.parametrize("spec", [1, 2])
def test_icechunk_opens_a_repository_with_extensions(tmp_path: Path, spec: int):
    config = extended_config(tmp_path)
    (tmp_path / "data.bin").write_bytes(b"abcd")
    folder = str(tmp_path / "repo")
    repo = Repository.create(local_filesystem_storage(folder), config, spec_version=spec)
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(4,), chunks=(4,), dtype="u1", compressors=None
    )
    session.store.set_virtual_ref("a/c/0", f"file://{tmp_path}/data.bin", offset=0, length=4)
    session.commit("virtual")

    stored = Repository.fetch_config(local_filesystem_storage(folder))
    prefix = f"file://{tmp_path}/"
    peer = icechunk.Repository.open(
        icechunk.local_filesystem_storage(folder),
        authorize_virtual_chunk_access={prefix: icechunk.credentials.LocalFileSystemAccess},
    )

    assert stored == config
    assert peer.config.max_concurrent_requests == 7
    assert list(containers_of(peer.config)) == [prefix]
    array = zarr.open_array(peer.readonly_session("main").store, path="a", mode="r")
    assert bytes(np.asarray(array[:])) == b"abcd"


def containers_of(config: Any) -> dict[str, Any]:
    return dict(config.virtual_chunk_containers)
