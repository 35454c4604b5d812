"""A chain against a model of plain numbers, with rivals, faults, resets and lost summaries."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.ledger_events import SCHEMA, moment, save_slice, seed

from icestream.errors import ChainRuleError, CommitUnknownError, ConflictError, StorageError
from icestream.ledger.blocks.events import AddData, SetInfo
from icestream.ledger.chain.layout import SUMMARY
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.rewriting import compact, reset
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.memory import InMemoryStorage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

COUNTS = st.integers(0, 3)


class LedgerMachine(RuleBasedStateMachine):
    """Appends by two writers, in any order, on a storage that may fail."""

    @initialize()
    def create(self) -> None:
        self.inner = InMemoryStorage()
        self.lossy = LossyStorage(self.inner)
        self.chain = MetadataChain.create(self.lossy, [seed(), SCHEMA], system_time=moment(0))
        self.rival = MetadataChain.open(self.inner)
        self.records = 0
        self.watermark = 0

    def event(self, chain: MetadataChain, records: int, raised: int) -> AddData:
        start = chain.state.next_offset
        end = start + records - 1
        return AddData(
            prev_offset=chain.state.last_offset,
            new_data=save_slice(self.inner, start, end) if records else None,
            new_watermark=moment(self.watermark + raised),
        )

    @rule(records=COUNTS, raised=COUNTS)
    def append(self, records: int, raised: int) -> None:
        self.chain.refresh()
        event = self.event(self.chain, records, raised)
        if records == raised == 0 and self.chain.state.data_event:
            with pytest.raises(ChainRuleError, match="add-data-changes-something"):
                self.chain.append(SetInfo(description="x"), event)
            return
        self.chain.append(SetInfo(description="x"), event)
        self.records += records
        self.watermark += raised

    @rule(ahead=st.integers(1, 3))
    def append_at_the_wrong_place(self, ahead: int) -> None:
        self.chain.refresh()
        head, wrong = self.chain.head, (self.chain.state.last_offset or 0) + ahead
        with pytest.raises(ChainRuleError, match="prev-offset-is-carried"):
            self.chain.append(AddData(prev_offset=wrong, new_watermark=moment(self.watermark + 1)))
        assert self.chain.head == head

    @rule()
    def rival_goes_first(self) -> None:
        self.chain.refresh()
        self.rival.refresh()
        late = self.event(self.chain, 1, 1)
        self.rival.append(SetInfo(description="rival"))
        with pytest.raises(ConflictError):
            self.chain.append(late)

    @rule(
        verb=st.sampled_from(["put_if_absent", "put_if_version", "put", "head"]),
        loss=st.sampled_from(Loss),
        first=st.integers(1, 2),
    )
    def append_on_a_storage_that_fails(self, verb: str, loss: Loss, first: int) -> None:
        self.chain.refresh()
        event = self.event(self.chain, 2, 1)
        self.lossy.rule = LossRule(verb, loss, first=first, last=99)
        try:
            self.chain.append(SetInfo(description="x"), event)
        except (StorageError, CommitUnknownError):
            pass
        else:
            self.records += 2
            self.watermark += 1
        self.lossy.rule = None

    @rule()
    def lose_the_summary(self) -> None:
        self.inner.delete_many([SUMMARY])

    @rule()
    def compact(self) -> None:
        self.chain.refresh()
        compact(
            self.chain,
            lambda slices: save_slice(
                self.inner, slices[0].offset_interval.start, slices[-1].offset_interval.end
            ),
        )

    @rule()
    def go_back_one_block_and_forth(self) -> None:
        self.chain.refresh()
        blocks = list(self.chain.blocks())
        reset(self.chain, blocks[1].block_hash)
        self.chain.append_blocks([blocks[0]])

    @invariant()
    def the_chain_says_what_the_model_says(self) -> None:
        state = MetadataChain.open(self.inner).state
        assert state.next_offset == self.records
        if state.data_event is not None:
            assert state.watermark == moment(self.watermark)

    def teardown(self) -> None:
        chain = MetadataChain.open(self.inner)
        assert ChainState.walked(chain.blocks()) == chain.state
        report = verify_chain(self.inner)
        assert report.is_valid, report.first


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
