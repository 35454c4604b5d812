"""Threads for work that nobody waits for."""

import logging
import os
import subprocess
import sys
import threading

import pytest

from icestream.repository.background import BackgroundThreads


def test_work_ends_whether_or_not_it_fails(caplog):
    threads = BackgroundThreads(1)
    done = []

    def fail() -> None:
        raise KeyError("lost")

    with caplog.at_level(logging.DEBUG, "icestream.repository.background"):
        ends = [threads.submit(fail), threads.submit(lambda: done.append(1))]
        assert [end.result(timeout=5) for end in ends] == [None, None]

    assert done == [1]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("DEBUG", "background work failed")
    ]


def test_threads_are_few_and_used_again():
    threads = BackgroundThreads(3)
    gate = threading.Event()

    ends = [threads.submit(lambda: gate.wait(5)) for _ in range(20)]
    assert threads.threads == 3
    gate.set()
    assert all(end.result(timeout=5) is None for end in ends)
    threads.submit(lambda: None).result(timeout=5)

    assert threads.threads == 3


def test_one_thread_does_for_work_that_comes_one_by_one():
    threads = BackgroundThreads(3)

    for _ in range(5):
        threads.submit(lambda: None).result(timeout=5)

    assert threads.threads == 1


def test_finished_work_keeps_nothing_alive():
    threads = BackgroundThreads(1)
    gone = threading.Event()

    class Heavy:
        def __call__(self) -> None:
            pass

        def __del__(self) -> None:
            gone.set()

    end = threads.submit(Heavy())

    assert end.result(timeout=5) is None
    assert gone.wait(5)


def test_without_a_thread_work_is_given_up_and_not_raised(monkeypatch):
    threads = BackgroundThreads(2)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert threads.submit(lambda: None).result(timeout=5) is None
    assert threads.threads == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_process_ends_while_work_hangs_and_a_forked_child_starts_afresh():
    program = """
import os, threading, time
from icestream.repository.background import BACKGROUND
started = threading.Event()
BACKGROUND.submit(lambda: (started.set(), time.sleep(60)))
assert started.wait(10)
child = os.fork()
if child == 0:
    assert BACKGROUND.threads == 0
    BACKGROUND.submit(lambda: None).result(timeout=10)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("over")
"""
    ran = subprocess.run(  # noqa: S603  our own program
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (ran.stdout, ran.returncode) == ("over\n", 0), ran.stderr
