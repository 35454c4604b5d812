"""A chain is the same on every store: atomic, conflicting where it must, verifiable."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.ledger_events import SCHEMA, moment, save_slice, seed

from icestream.errors import AlreadyExistsError, ConflictError
from icestream.ledger.blocks.events import AddData, SetInfo
from icestream.ledger.chain.leftovers import delete_leftovers
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.rewriting import reset
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage

WRITERS = 4
STORES = [
    "memory",
    "local",
    pytest.param("moto_storage", marks=pytest.mark.server),
    pytest.param("seaweedfs_storage", marks=pytest.mark.server),
    pytest.param("azurite_storage", marks=pytest.mark.server),
]


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "memory":
        return InMemoryStorage()
    if request.param == "local":
        return LocalStorage(tmp_path)
    found: Storage = request.getfixturevalue(request.param)
    return found


def test_a_chain_lives_on_the_store(storage: Storage) -> None:
    chain = MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))
    with pytest.raises(AlreadyExistsError):
        MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))
    start = chain.append(AddData(new_data=save_slice(storage, 0, 9)))
    stale = MetadataChain.open(storage)
    chain.append(AddData(prev_offset=9, new_data=save_slice(storage, 10, 19)))

    with pytest.raises(ConflictError):
        stale.append(SetInfo(description="late"))
    report = verify_chain(storage)
    assert report.is_valid, report.first
    assert (report.blocks, report.slices) == (4, 2)

    reset(chain, start)
    deleted = delete_leftovers(storage, older_than=datetime.now(UTC) + timedelta(minutes=1))
    assert deleted.deleted == 3  # two blocks and a slice
    assert MetadataChain.open(storage).state.last_offset == 9
    assert verify_chain(storage).is_valid


def test_of_many_writers_at_once_one_wins(storage: Storage) -> None:
    chain = MetadataChain.create(storage, [seed()], system_time=moment(0))
    handles = [MetadataChain.open(storage) for _ in range(WRITERS)]

    def write(number: int) -> bool:
        try:
            handles[number].append(SetInfo(description=str(number)))
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))

    assert sum(won) == 1
    chain.refresh()
    assert chain.state.info == SetInfo(description=str(won.index(True)))
    assert chain.state.head.sequence_number == 1
