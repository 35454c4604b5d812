"""Datasets on remote stores, and many processes that write to one."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from icestream.errors import ConflictError
from icestream.ledger import Dataset, Workspace
from icestream.storage import Storage, local_filesystem_storage

APPENDS_EACH = 4


@pytest.fixture(params=["seaweedfs_storage", "moto_storage", "azurite_storage"])
def remote(request: pytest.FixtureRequest) -> Storage:
    found: Storage = request.getfixturevalue(request.param)
    return found


@pytest.mark.server
def test_a_dataset_lives_on_a_remote_store(remote: Storage) -> None:
    workspace = Workspace(remote)
    dataset = workspace.create("acme/cities")
    first = dataset.add_data(pa.table({"city": ["kyiv", "odesa"]}))
    other = workspace.open("acme/cities")
    dataset.add_data(pa.table({"city": ["lviv"]}))

    with pytest.raises(ConflictError):
        other.add_data(pa.table({"city": ["dnipro"]}))
    other.refresh()

    assert other.to_arrow().column("city").to_pylist() == ["kyiv", "odesa", "lviv"]
    found = other.to_dataset().to_table(filter=pc.field("offset") == 2, columns=["city"])
    assert found.column("city").to_pylist() == ["lviv"]
    assert other.tail(1).column("offset").to_pylist() == [2]
    assert other.as_of(first.new_head).record_count == 2
    assert other.compact().is_changed
    assert other.collect_garbage(datetime.now(UTC) + timedelta(hours=1)).deleted > 2
    assert workspace.open("acme/cities").verify().is_valid
    assert [str(entry.alias) for entry in workspace.datasets()] == ["acme/cities"]
    workspace.delete("acme/cities")
    assert list(remote.list()) == []


def append_rows(storage: Storage, writer: int) -> int:
    """Append rows of one writer, however often others are first; return how often they were."""
    dataset, conflicts, turn = Dataset.open(storage), 0, 0
    while turn < APPENDS_EACH:
        try:
            dataset.add_data(pa.table({"writer": [writer], "turn": [turn]}))
            turn += 1
        except ConflictError:
            conflicts += 1
            dataset.refresh()
    return conflicts


@pytest.fixture(params=["local", "seaweedfs_storage"])
def shared(request: pytest.FixtureRequest, tmp_path: object) -> Storage:
    if request.param == "local":
        return local_filesystem_storage(str(tmp_path))
    found: Storage = request.getfixturevalue(request.param)
    return found


@pytest.mark.server
@pytest.mark.slow
def test_nothing_of_many_processes_is_lost_or_doubled(shared: Storage) -> None:
    Dataset.create(shared, "races")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        list(pool.map(append_rows, [shared] * 3, range(3)))

    dataset = Dataset.open(shared)
    rows = dataset.to_arrow().select(["writer", "turn"]).to_pylist()

    assert sorted((row["writer"], row["turn"]) for row in rows) == [
        (writer, turn) for writer in range(3) for turn in range(APPENDS_EACH)
    ]
    assert dataset.verify().is_valid
