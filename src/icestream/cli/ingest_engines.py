"""Who does the work of `icestream archive run`: this process, or Spark."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from icestream.errors import InvalidInputError

if TYPE_CHECKING:
    from icestream.ingest.engines.protocol import Engine
    from icestream.ingest.progress import Progress

# Spark is imported only where it is used: it takes seconds, and is an extra.


def engine_for(master: str | None, *, serial: bool, progress: "Progress") -> "Engine":
    """Return the engine that the command line asks for.

    Without a word, few files are scanned here and many on a Spark in this process.

    Raises:
        InvalidInputError: Both were asked for.
    """
    from icestream.ingest.engines.choosing import ChoosingEngine  # noqa: PLC0415  loads pyarrow
    from icestream.ingest.engines.serial import SerialEngine  # noqa: PLC0415  as above

    if serial and master is not None:
        raise InvalidInputError("--serial is without Spark: leave out --serial or --master")
    if master is not None:
        return _spark_engine(master, progress)
    here = SerialEngine()
    return here if serial else ChoosingEngine(here, lambda: _spark_engine(None, progress))


def _spark_engine(master: str | None, progress: "Progress") -> "Engine":
    try:
        from icestream.spark import session  # noqa: PLC0415  an extra
        from icestream.spark.ingest_engine import SparkEngine  # noqa: PLC0415  as above
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "Spark is not installed: install icestream[spark], or give --serial"
        ) from error
    # the web interface is for people; in local mode it listens on the loopback address
    is_watched = sys.stderr.isatty()
    with _own_interrupts():
        spark = session("icestream archive", master, {"spark.ui.enabled": str(is_watched).lower()})
    address = spark.sparkContext.uiWebUrl
    if address:
        progress.note(f"Spark shows its work at {address}")
    return SparkEngine(spark)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which Spark would replace by its own."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
