"""A dataset against a list: whatever is done to it, it holds what it should."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from icestream.errors import ConflictError
from icestream.ledger import CompactionLimits, Dataset, Multihash, SetInfo
from icestream.storage.memory import InMemoryStorage

FUTURE = datetime.now(UTC) + timedelta(days=1)
VALUES = st.lists(st.integers(0, 9), max_size=5)


class DatasetMachine(RuleBasedStateMachine):
    """Two handles of one dataset, of which one may be behind the other."""

    @initialize()
    def create(self) -> None:
        self.storage = InMemoryStorage()
        self.dataset = Dataset.create(self.storage, "numbers")
        self.other = Dataset.open(self.storage)
        self.values: list[int] = []
        self.was: dict[Multihash, list[int]] = {self.dataset.head: []}

    def note(self) -> None:
        self.was[self.dataset.head] = list(self.values)

    @rule(values=VALUES)
    def add(self, values: list[int]) -> None:
        before = self.dataset.head
        added = self.dataset.add_data(pa.table({"value": pa.array(values, pa.int64())}))
        self.values += values
        self.note()
        assert added.record_count == len(values)
        assert values or before == added.new_head or not self.was[before]

    @rule(text=st.text(max_size=3))
    def describe(self, text: str) -> None:
        self.dataset.append(SetInfo(description=text))
        self.note()

    @precondition(lambda self: self.other.head != self.dataset.head)
    @rule(values=VALUES.filter(bool))
    def lose_a_race(self, values: list[int]) -> None:
        with pytest.raises(ConflictError):
            self.other.add_data(pa.table({"value": pa.array(values, pa.int64())}))

    @rule()
    def catch_up(self) -> None:
        self.other.refresh()
        self.dataset, self.other = self.other, self.dataset

    @rule(limit=st.integers(1, 8))
    def compact(self, limit: int) -> None:
        # other hashes: what the blocks were is not on the chain any more
        if self.dataset.compact(CompactionLimits(max_slice_records=limit)).is_changed:
            self.was = {}
        self.note()

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        on_chain = [block.block_hash for block in self.dataset.blocks()]
        target = data.draw(st.sampled_from([each for each in on_chain if each in self.was]))
        self.dataset.reset(target)
        self.values = list(self.was[target])

    @rule()
    def collect_garbage(self) -> None:
        self.other.refresh()
        self.dataset.collect_garbage(FUTURE)
        assert self.dataset.find_garbage(FUTURE).objects == ()

    @invariant()
    def holds_what_it_should(self) -> None:
        table = self.dataset.to_arrow()
        assert table.column("offset").to_pylist() == list(range(len(self.values)))
        if self.values:
            assert table.column("value").to_pylist() == self.values
            assert self.dataset.tail(2).column("value").to_pylist() == self.values[-2:]
        assert Dataset.open(self.storage).to_arrow() == table

    @invariant()
    def is_valid(self) -> None:
        self.dataset.verify(threads=1).require_valid()

    @invariant()
    def remembers_how_it_was(self) -> None:
        blocks = [block.block_hash for block in self.dataset.blocks()]
        for block in [each for each in blocks if each in self.was][:2]:
            assert self.dataset.as_of(block).record_count == len(self.was[block])


TestDatasetMachine = DatasetMachine.TestCase
TestDatasetMachine.settings = settings(
    TestDatasetMachine.settings, stateful_step_count=15, max_examples=15, deadline=None
)
