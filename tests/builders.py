"""Small repositories for tests."""

import json
from typing import Any

import numpy as np
import zarr

from icestream.model.config import RepositoryConfig
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage import in_memory_storage
from icestream.storage.protocol import Storage

GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'


def array_json(
    shape: tuple[int, ...] = (4,), chunks: tuple[int, ...] = (1,), **changes: Any
) -> bytes:
    """Return the zarr.json of an int32 array."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }
    return json.dumps(document | changes).encode()


def one_manifest_per_array(config: RepositoryConfig | None = None) -> RepositoryConfig:
    """Return a configuration in which no two arrays share a manifest."""
    config = config or RepositoryConfig()
    config.chunk_manifests = ChunkManifests((ManifestSet("default", arrays_per_manifest=1),))
    return config


def repository(storage: Storage | None = None, **options: Any) -> Repository:
    """Return an empty repository, in memory unless told otherwise."""
    return Repository.create(storage or in_memory_storage(), **options)


def repository_with_array(
    storage: Storage | None = None, *, chunks: int = 4, **options: Any
) -> Repository:
    """Return a repository whose main branch has an array /a of `chunks` zeros, one per chunk."""
    repo = repository(storage, **options)
    session = repo.writable_session("main")
    zarr.create_group(session.store).create_array(
        "a", shape=(chunks,), chunks=(1,), dtype="i4", fill_value=-1
    )[:] = np.zeros(chunks)
    session.commit("array")
    return repo


def array_of(session: Session, path: str = "a") -> Any:
    """Return an array of a session, writable if the session is."""
    mode = "r" if session.read_only else "r+"
    return zarr.open_array(session.store, path=path, mode=mode)


def values(repo: Repository, path: str = "a", **version: Any) -> list[Any]:
    """Return the values of an array in a version, the main branch by default."""
    session = repo.readonly_session(**(version or {"branch": "main"}))
    found: list[Any] = array_of(session, path)[...].tolist()
    return found


def messages(repo: Repository, branch: str = "main") -> list[str]:
    """Return the commit messages of a branch, newest first."""
    return [info.message for info in repo.ancestry(branch=branch)]
