"""Files as JSON: every event and every kind of file can be shown."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import array_of, repository, repository_with_array
from tests.histories import make_long_history

from icestream.errors import ErrorKind, NotFoundError, SessionStateError
from icestream.model import ops_log
from icestream.model.ops_log import EVENT_KINDS, RepoAvailability, RepoStatus
from icestream.repository.inspection import _event, _header, _time

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXAMPLES: dict[type, tuple[Any, dict[str, Any]]] = {
    ops_log.RepoMigrated: (
        ops_log.RepoMigrated(1, 2),
        {"from_version": "1.0", "to_version": "2.0"},
    ),
    ops_log.FeatureFlagChanged: (
        ops_log.FeatureFlagChanged(3, None),
        {"id": 3, "new_value": None},
    ),
    ops_log.RepoStatusChanged: (
        ops_log.RepoStatusChanged(RepoStatus(RepoAvailability.read_only, NOON, "why")),
        {
            "status": {
                "availability": "ReadOnly",
                "limited_availability_reason": "why",
                "set_at": "2026-01-01T12:00:00Z",
            }
        },
    ),
}


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_event_has_a_document(kind):
    names = list(getattr(kind, "__slots__", ()))
    event, expected = EXAMPLES.get(kind) or (kind(*names), {name: name for name in names})
    shown = _event(event)
    suffix = "" if kind is ops_log.FeatureFlagChanged else "Update"
    assert shown == {"type": kind.__name__ + suffix, **expected}
    assert json.dumps(shown)


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "12:00:00Z"), (5000, "12:00:00.005Z"), (5001, "12:00:00.005001Z")],
)
def test_times_have_as_many_decimals_as_they_need(micros, text):
    assert _time(NOON.replace(microsecond=micros)) == f"2026-01-01T{text}"


def test_headers_are_read_whoever_wrote_them():
    header = b"ICE\xf0\x9f\xa7\x8aCHUNK" + b"some-tool-1".ljust(24, b"\0") + bytes((1, 4, 1))
    assert _header(header) == {
        "written_by": "some-tool-1",
        "app_name": "some",
        "app_version": "tool-1",
        "spec_version": "1.0",
        "file_type": "transaction-log",
        "compression": "zstd",
    }


@pytest.mark.parametrize("spec", [1, 2])
def test_a_snapshot_shows_nodes_and_manifests(spec):
    repo = repository_with_array(spec_version=spec)
    shown = repo.inspect_snapshot(repo.lookup_branch("main"))
    assert list(shown) == [
        "id",
        "header",
        "flushed_at",
        "commit_message",
        "metadata",
        "manifests",
        "nodes",
    ]
    assert shown["header"]["spec_version"] == f"{spec}.0"
    assert [node["path"] for node in shown["nodes"]] == ["/", "/a"]
    (manifest,) = shown["manifests"]
    assert shown["nodes"][1]["manifest_refs"] == [{"id": manifest["id"], "extents": [[0, 4]]}]
    assert shown["nodes"][1]["shape"] == [{"array_length": 4, "num_chunks": 4}]
    counts = repo.inspect_manifest(manifest["id"])
    assert (counts["total_chunk_refs"], counts["total_inline"]) == (4, 4)
    assert json.dumps([shown, counts])


def test_a_log_shows_what_expired_ancestors_changed_and_which_logs_are_missing():
    repo = repository()
    middle = make_long_history(repo, spec=2)
    expired = [info.id for info in repo.ancestry(branch="main") if info.written_at < middle][:-1]
    repo.expire_snapshots(middle)
    oldest = list(repo.ancestry(branch="main"))[-2].id
    shown = repo.inspect_transaction_log(oldest)
    assert len(shown["new_arrays"]) == 2
    assert shown["synthetic_composite"]["merged_pruned_ancestor_tx_logs"] == expired[::-1]
    repo.storage.delete_many([f"transactions/{expired[0]}"])
    shown = repo.inspect_transaction_log(oldest)
    assert shown["synthetic_composite"]["missing_tx_logs"] == [expired[0]]
    assert json.dumps(shown)


def test_the_log_of_an_unregistered_snapshot_can_be_shown():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    fork = session.fork()
    assert repo.inspect_transaction_log(fork.snapshot_id)["updated_chunks"]


def test_the_repo_info_shows_names_and_the_ops_log():
    repo = repository()
    make_long_history(repo, spec=2)
    repo.set_metadata({"a": [1, None]})
    shown = repo.inspect_repo_info()
    assert set(shown["branches"]) == {"main", "old", "spanning"}
    assert shown["tags"] == {"middle": repo.lookup_tag("middle")}
    assert (shown["deleted_tags"], shown["metadata"]) == (["gone"], {"a": [1, None]})
    assert (
        "parent_id"
        not in shown["snapshots"][
            [s["id"] for s in shown["snapshots"]].index("1CECHNKREP0F1RSTCMT0")
        ]
    )
    newest, second = shown["latest_updates"][:2]
    assert newest["update_type"] == {"type": "MetadataChangedUpdate"}
    assert "backup_path" not in newest
    assert second["backup_path"].startswith("repo.")
    assert json.dumps(shown)


def test_what_is_not_there_cannot_be_shown():
    repo = repository(spec_version=1)
    with pytest.raises(SessionStateError) as caught:
        repo.inspect_repo_info()
    assert caught.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION
    with pytest.raises(NotFoundError):
        repo.inspect_manifest("0" * 20)
    with pytest.raises(NotFoundError):
        repo.inspect_transaction_log("1CECHNKREP0F1RSTCMT0")


async def test_the_async_twins_do_the_same():
    repo = repository_with_array()
    tip = repo.lookup_branch("main")
    snapshot = await repo.inspect_snapshot_async(tip)
    assert snapshot == repo.inspect_snapshot(tip)
    assert await repo.inspect_manifest_async(snapshot["manifests"][0]["id"])
    assert await repo.inspect_transaction_log_async(tip) == repo.inspect_transaction_log(tip)
    assert await repo.inspect_repo_info_async() == repo.inspect_repo_info()
