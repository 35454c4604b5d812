"""The summary makes opening quick, and is never believed against the blocks."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.ledger_events import SCHEMA, data_slice, moment, push_source, save_slice, seed, transform

from icestream.errors import ChainRuleError, IntegrityError
from icestream.ledger.blocks.events import AddData, DatasetKind, SetInfo, SetVocab
from icestream.ledger.chain.layout import BLOCKS, HEAD, SUMMARY
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.summaries import decode_summary, encode_summary, save_summary
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage, Loss, LossRule, LossyStorage
from icestream.testing.ledger_chains import BlockTemplate, LongChain


def create(storage: Storage) -> MetadataChain:
    chain = MetadataChain.create(
        storage,
        [seed(), SCHEMA, SetVocab(offset_column="o"), push_source()],
        system_time=moment(0),
    )
    chain.append(AddData(new_data=save_slice(storage, 0, 9), new_watermark=moment(1)))
    return chain


def append_infos(storage: Storage, count: int) -> None:
    chain = MetadataChain.open(storage)
    for number in range(count):
        chain.append(SetInfo(description=str(number)))


def opened(storage: Storage) -> tuple[MetadataChain, int]:
    """Return the chain and how many blocks were read to open it."""
    counting = CountingStorage(storage)
    chain = MetadataChain.open(counting)
    return chain, sum(path.startswith(BLOCKS) for _, path in counting.log)


def test_a_summary_says_what_the_blocks_say() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    append_infos(storage, 3)
    chain.refresh()

    from_summary, read = opened(storage)

    assert read == 1
    assert from_summary.state == chain.state == ChainState.walked(chain.blocks())
    assert decode_summary(encode_summary(chain.state)) == chain.state
    assert len(chain.state.blocks) < len(list(chain.blocks()))


def test_opening_takes_3_requests_however_far_back_the_data_lie() -> None:
    storage = InMemoryStorage()
    chain = LongChain.start(storage, seed(), SCHEMA, system_time=moment(0))
    chain.add(AddData(new_data=save_slice(storage, 0, 0)), moment(0))
    template = BlockTemplate.of(SetInfo(description="x"), moment(0))
    for _ in range(1000):
        chain.stamp(template)
    chain.finish()
    counting = CountingStorage(storage)

    opened = MetadataChain.open(counting)

    assert [path.split("/")[0] for _, path in counting.log] == ["refs", "blocks", "info"]
    assert opened.state.last_offset == 0
    counting.reset()
    opened.append(AddData(prev_offset=0, new_data=save_slice(storage, 1, 1)), system_time=moment(1))
    assert len([path for _, path in counting.log if path != SUMMARY]) == 3


def test_a_stale_summary_costs_a_walk_to_its_block_only() -> None:
    storage = InMemoryStorage()
    create(storage)
    stale = storage.get(SUMMARY)
    append_infos(storage, 5)
    storage.put(SUMMARY, stale)

    chain, read = opened(storage)

    assert read == 5
    assert chain.state == ChainState.walked(chain.blocks())
    assert storage.get(SUMMARY) == stale


def test_a_summary_that_is_far_behind_is_written_anew() -> None:
    storage = InMemoryStorage()
    create(storage)
    stale = storage.get(SUMMARY)
    append_infos(storage, 30)
    storage.put(SUMMARY, stale)

    assert opened(storage)[1] == 30
    assert opened(storage)[1] == 1


def test_an_absent_summary_costs_one_walk() -> None:
    storage = InMemoryStorage()
    create(storage)
    append_infos(storage, 20)
    storage.delete_many([SUMMARY])

    assert opened(storage)[1] == 25
    assert opened(storage)[1] == 1


def test_a_storage_that_only_reads_is_not_written_to() -> None:
    storage = InMemoryStorage()
    create(storage)
    append_infos(storage, 20)
    storage.delete_many([SUMMARY])
    counting = CountingStorage(storage)
    counting.read_only = True

    chain = MetadataChain.open(counting)

    assert counting.writes == 0
    assert chain.state.last_offset == 9
    assert not save_summary(counting, chain.state)


@pytest.mark.parametrize("loss", Loss)
def test_a_summary_that_cannot_be_written_does_not_fail_the_append(loss: Loss) -> None:
    lossy = LossyStorage(InMemoryStorage())
    chain = create(lossy)
    lossy.rule = LossRule("put", loss, path_prefix=SUMMARY)

    head = chain.append(SetInfo(description="x"))

    assert lossy.met == 1
    assert MetadataChain.open(lossy.inner).head == head


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return json.dumps(document).encode()

    return edit


def swap_bytes_of_last(document: dict[str, Any]) -> None:
    *_, (name, text) = document["blocks"].items()
    data = bytearray(base64.b64decode(text))
    data[-3] ^= 1
    document["blocks"][name] = base64.b64encode(data).decode()


def reorder(document: dict[str, Any]) -> None:
    document["blocks"] = dict(reversed(document["blocks"].items()))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "no text": lambda _: b"\xff\x00",
    "a list": lambda _: b"[]",
    "null": lambda _: b"null",
    "no version": edited(lambda document: document.pop("version")),
    "other version": edited(lambda document: document.update(version=2)),
    "blocks are a list": edited(lambda document: document.update(blocks=[])),
    "no blocks": edited(lambda document: document.update(blocks={})),
    "a block is no base64": edited(lambda document: document["blocks"].update(f1620="?")),
    "a block is damaged": edited(swap_bytes_of_last),
    "a block is left out": edited(lambda document: document["blocks"].popitem()),
    "order": edited(reorder),
    "digest": edited(lambda document: document.update(digest="f1620")),
    "names another block": edited(lambda document: document.update(block="f1620")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_summary_is_not_used(damage: Callable[[bytes], bytes]) -> None:
    storage = InMemoryStorage()
    create(storage)
    damaged = damage(storage.get(SUMMARY))
    storage.put(SUMMARY, damaged)

    chain, read = opened(storage)

    assert read == 5
    assert chain.state == ChainState.walked(chain.blocks())
    with pytest.raises(IntegrityError):
        decode_summary(damaged)


def test_a_summary_of_another_chain_is_not_used() -> None:
    storage, other = InMemoryStorage(), InMemoryStorage()
    create(storage)
    append_infos(storage, 2)
    strange = MetadataChain.create(other, [seed(DatasetKind.DERIVATIVE, 2), transform(1)])
    storage.put(SUMMARY, encode_summary(strange.state))

    assert opened(storage)[0].state.last_offset == 9


def test_a_summary_of_blocks_that_were_taken_back_is_not_used() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    head = storage.get(HEAD)
    chain.append(
        AddData(prev_offset=9, new_data=save_slice(storage, 10, 19), new_watermark=moment(1))
    )
    storage.put(HEAD, head)

    assert opened(storage)[0].state.last_offset == 9


def test_a_summary_that_lies_is_found_out_by_the_blocks_that_follow_it() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    info = chain.append(SetInfo(description="x"))
    forged = ChainState(
        head=chain.state.head,
        latest={role: block for role, block in chain.state.latest.items() if role != "data"},
    )
    chain.append(
        AddData(prev_offset=9, new_data=save_slice(storage, 10, 19), new_watermark=moment(1))
    )
    assert forged.head.block_hash == info
    assert forged.last_offset is None
    storage.put(SUMMARY, encode_summary(forged))

    found, _ = opened(storage)

    assert found.state.last_offset == 19
    with pytest.raises(ChainRuleError, match="prev-offset-is-carried"):
        found.append(AddData(new_data=data_slice(0, 0)))
