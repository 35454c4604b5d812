"""The benchmark of the ledger runs, and what it builds is a valid example."""

import pytest
from benchmarks.ledger_operations import (
    append_empty,
    build_example,
    main,
    prepare_next,
    scan_deeply,
)

from icestream.ledger.chain.verification import verify_chain
from icestream.storage.memory import InMemoryStorage


@pytest.mark.parametrize("transactions", [60, 600, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_next_transaction_is_prepared_at_a_cost_that_does_not_grow(transactions: int) -> None:
    example = build_example(transactions, lambda _: InMemoryStorage())

    assert prepare_next(example).objects_read == 6
    assert scan_deeply(example).objects_read == 3 + transactions + 2
    assert append_empty(example).objects_read == 2


def test_the_example_complies_with_all_rules() -> None:
    example = build_example(60, lambda _: InMemoryStorage())

    for storage in (example.source, example.derivative):
        report = verify_chain(storage)
        assert report.is_valid, report.first
    assert report.blocks == 63


def test_the_report_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["24", "--on-disk", "12"])

    printed = capsys.readouterr().out
    assert "| 24 | memory | 6 |" in printed
    assert "2 requests" in printed
