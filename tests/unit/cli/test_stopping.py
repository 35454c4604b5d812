"""Signals that end a command."""

import signal
import threading

import pytest

from icestream.cli.stopping import SIGNALS, stop_on_signals


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_to_stop_and_the_second_insists(number):
    with stop_on_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_on_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_another_thread_has_an_event_that_no_signal_sets():
    seen = []

    def work() -> None:
        with stop_on_signals() as stop:
            seen.append(stop.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
