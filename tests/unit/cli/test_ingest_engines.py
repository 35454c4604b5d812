"""Who does the work of a run, by what the command line says."""

import signal
import sys

import pytest

from icestream.cli.ingest_engines import _own_interrupts, engine_for
from icestream.errors import InvalidInputError
from icestream.ingest.engines.choosing import ChoosingEngine
from icestream.ingest.engines.serial import SerialEngine
from icestream.ingest.progress import SILENT


def test_without_a_word_the_number_of_files_decides():
    assert isinstance(engine_for(None, serial=False, progress=SILENT), ChoosingEngine)


def test_serial_is_in_this_process_whatever_the_number():
    assert isinstance(engine_for(None, serial=True, progress=SILENT), SerialEngine)


def test_both_cannot_be_had():
    with pytest.raises(InvalidInputError, match="leave out --serial or --master"):
        engine_for("local[2]", serial=True, progress=SILENT)


def test_where_spark_is_not_installed_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "icestream.spark", None)
    with pytest.raises(InvalidInputError, match=r"install icestream\[spark\], or give --serial"):
        engine_for("local[2]", serial=False, progress=SILENT)


def test_ctrl_c_stays_ours():
    before = signal.getsignal(signal.SIGINT)
    with _own_interrupts():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before
