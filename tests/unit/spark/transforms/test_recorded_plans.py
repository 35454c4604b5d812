"""Plans of recorded transactions, beside those that they were made by."""

import pyarrow as pa
import pytest
from tests.unit.ledger.test_transactions import derivative, output, plan, readings, root

from icestream.errors import ChainRuleError, IntegrityError
from icestream.ledger import Dataset, ExecuteTransform
from icestream.ledger.chain.states import ChainState
from icestream.spark.transforms.recorded_plans import InputHistory, recorded_plan


def history(dataset: Dataset) -> InputHistory:
    return InputHistory(dataset.chain.store, dataset.state.head)


def test_every_transaction_gives_back_its_plan() -> None:
    fast, slow = root(rows=1), root(rows=2)
    derived = derivative(fast, slow)
    plans = []
    for count in range(3):
        plans.append(plan(derived, fast, slow))
        derived.write_transform(plans[-1], output(count))
        fast.add_data(readings(1))
    blocks = list(derived.blocks())[::-1]
    histories = {each.dataset_id: history(each) for each in (fast, slow)}

    found = [
        recorded_plan(ChainState.fold(blocks[:place]), block.event, histories)
        for place, block in enumerate(blocks)
        if isinstance(block.event, ExecuteTransform)
    ]

    # the first transaction follows the schema that it brought along
    assert [each.inputs for each in found] == [each.inputs for each in plans]
    assert [each.watermark for each in found] == [each.watermark for each in plans]
    assert [each.next_offset for each in found] == [each.next_offset for each in plans]
    assert [each.prev_checkpoint for each in found] == [each.prev_checkpoint for each in plans]


def test_states_of_inputs_are_known_in_any_order() -> None:
    source = root(rows=1)
    early = source.head
    source.add_data(pa.table({"value": [1], "event_time": readings(1).column("event_time")}))
    known = history(source)

    assert known.state_at(source.head).last_offset == 1
    assert known.state_at(early).last_offset == 0


def test_what_an_input_does_not_have_is_told() -> None:
    source, other = root(rows=1), root(rows=1)
    derived = derivative(source)
    derived.write_transform(plan(derived, source), output(1))
    event, before = derived.state.data_event, derived.state
    assert isinstance(event, ExecuteTransform)
    known = history(source)

    with pytest.raises(IntegrityError, match=r"input \S+ \(did:odf:\w+\) is not at hand"):
        recorded_plan(before, event, {})
    with pytest.raises(ChainRuleError, match=r"input \S+: .* diverged"):
        recorded_plan(before, event, {source.dataset_id: history(other)})
    with pytest.raises(ChainRuleError, match="does not follow"):
        known.between(source.head, source.head)
