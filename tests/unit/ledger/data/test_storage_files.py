"""Files of a storage that threads of Arrow still hold when a program ends."""

import gc
import subprocess
import sys
import weakref

from icestream.ledger.data.storage_files import open_file_system
from icestream.storage.memory import InMemoryStorage

LINGERING = """
import threading, time
from icestream.ledger.data.storage_files import open_file_system
from icestream.storage.memory import InMemoryStorage

storage = InMemoryStorage()
storage.put("data/one", b"1234")
held = [open_file_system(storage).open_input_file("data/one")]

def let_go():
    time.sleep(0.3)
    print("let go", flush=True)
    held.clear()  # from here on the program may end

threading.Thread(target=let_go, daemon=True).start()
"""


def test_a_file_system_outlives_the_last_reader() -> None:
    opened = open_file_system(InMemoryStorage())
    handler = weakref.ref(opened.handler)

    del opened
    gc.collect()

    assert handler() is not None


def test_old_file_systems_are_let_go() -> None:
    handler = weakref.ref(open_file_system(InMemoryStorage()).handler)

    for _ in range(20):
        open_file_system(InMemoryStorage())
    gc.collect()

    assert handler() is None


def test_a_program_does_not_end_while_a_thread_holds_a_file() -> None:
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", LINGERING], capture_output=True, text=True, check=True
    )

    assert done.stdout == "let go\n"
