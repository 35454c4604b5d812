"""Long chains on remote storages are read many blocks at once."""

from collections.abc import Iterator

import pytest
from tests.ledger_events import seed

from icestream.errors import IntegrityError, StorageError
from icestream.ledger.blocks.events import SetInfo
from icestream.ledger.chain.layout import block_key
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.prefetching import walk_ahead
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ObjectInfo
from icestream.testing.doubles import CountingStorage


class RemoteStorage(CountingStorage):
    """Counts, and makes every read a request."""

    def __init__(self) -> None:
        super().__init__(InMemoryStorage())
        self.reads_inline = False


class WebStorage(RemoteStorage):
    """Lists nothing."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        raise StorageError(f"no listing of {prefix}")


def chain_on(storage: CountingStorage, blocks: int) -> MetadataChain:
    events = [SetInfo(description=str(number)) for number in range(blocks - 1)]
    chain = MetadataChain.create(storage, [seed(), *events])
    storage.reset()
    return chain


@pytest.mark.parametrize(("blocks", "lists"), [(10, 0), (100, 1)])
def test_long_chains_are_read_at_once(blocks: int, lists: int) -> None:
    storage = RemoteStorage()
    chain = chain_on(storage, blocks)

    walked = list(walk_ahead(chain.store, chain.state.head, blocks))

    assert walked == list(chain.blocks())
    assert storage.requests["list"] == lists


@pytest.mark.parametrize("count", [1, 20])
def test_a_part_of_a_chain_is_read_block_by_block(count: int) -> None:
    storage = RemoteStorage()
    chain = chain_on(storage, 100)

    walk = walk_ahead(chain.store, chain.state.head, count)

    assert [next(walk).sequence_number for _ in range(count)][-1] == 100 - count
    assert storage.requests["list"] == 0
    assert storage.requests["get"] == count - 1


def test_where_nothing_is_listed_blocks_are_read_one_by_one() -> None:
    chain = chain_on(WebStorage(), 100)

    assert len(list(walk_ahead(chain.store, chain.state.head, 100))) == 100


def test_damage_is_noticed_all_the_same() -> None:
    storage = RemoteStorage()
    chain = chain_on(storage, 100)
    key = block_key(list(chain.blocks())[50].block_hash)
    storage.put(key, b"?")

    with pytest.raises(IntegrityError, match=key):
        list(walk_ahead(chain.store, chain.state.head, 100))
