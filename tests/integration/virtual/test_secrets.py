"""Secrets stay with the reader: never in what is shown, logged, stored, or pickled as settings."""

import logging
import pickle

import numpy as np
import pytest
import zarr

import icestream as ice
from icestream.codec.header import FileType, decode_body
from icestream.credentials import http_bearer_credentials

pytestmark = pytest.mark.server

SECRETS = ("SECRET-OF-THE-KEY", "SECRET-TOKEN", "SECRET-BEARER")


def consent() -> dict[str, object]:
    return {
        "s3://archive/": ice.s3_credentials(
            access_key_id="AKID", secret_access_key=SECRETS[0], session_token=SECRETS[1]
        ),
        "https://example.org/": http_bearer_credentials(SECRETS[2]),
    }


@pytest.fixture
def repo(moto) -> ice.Repository:
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(
            "s3://archive/",
            ice.s3_store(
                region="us-east-1",
                endpoint_url=moto.endpoint_url,
                allow_http=True,
                force_path_style=True,
                s3_compatible=True,
            ),
            name="archive",
        )
    )
    storage = ice.s3_storage(bucket=moto.new_bucket(), prefix="repo", **moto.storage_arguments())
    authorized = consent() | {moto.endpoint_url: None}
    repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access=authorized)
    with repo.transaction("main", message="virtual") as store:
        zarr.create_array(store, name="a", shape=(2,), chunks=(1,), dtype="i1", compressors=None)
        store.set_virtual_refs_arr(
            "a",
            (2,),
            ["s3://archive/gone.nc"] * 2,
            np.array([0, 1], np.uint64),
            np.array([1, 1], np.uint64),
        )
    repo.save_config()
    return repo


def check_clean(text: object) -> None:
    shown = text if isinstance(text, bytes) else str(text).encode()
    assert not [secret for secret in SECRETS if secret.encode() in shown]


def test_secrets_are_not_shown(repo):
    session = repo.readonly_session("main")
    for thing in (repo, session, session.store, repo.config, repo.storage, consent()):
        check_clean(repr(thing))
        check_clean(str(thing))
    check_clean(repo.required_credentials())
    check_clean(repr(session._copy.context.reader.access))


def test_secrets_are_not_in_errors_or_logs(repo, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ice.StorageError) as raised:
        zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")[:]
    error: BaseException | None = raised.value
    while error is not None:
        check_clean(error)
        check_clean(repr(error))
        error = error.__cause__
    check_clean(caplog.text)


def test_secrets_are_not_stored(repo):
    objects = list(repo.storage.list(""))
    assert len(objects) > 5
    for info in objects:
        check_clean(repo.storage.get(info.path))
    # files are compressed: look inside the one that holds the configuration
    _, body = decode_body(repo.storage.get("repo"), FileType.REPO_INFO, name="repo")
    assert b"archive" in body
    check_clean(body)


def test_secrets_are_not_in_pickled_settings_but_travel_with_sessions(repo):
    check_clean(pickle.dumps(repo.config))
    session = repo.readonly_session("main")
    again = pickle.loads(pickle.dumps(session))
    assert again._copy.context.reader.access == session._copy.context.reader.access
    with pytest.raises(ice.SessionStateError):
        pickle.dumps(repo.writable_session("main"))
