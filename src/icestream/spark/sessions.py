"""A Spark session with the settings that icestream's jobs rely on."""

import importlib.resources
import ipaddress
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from icestream.spark.java import find_java

DEFAULT_MASTER = "local[*]"

RESULT_SETTINGS: Mapping[str, str] = {
    # times mean the same on every machine, and Parquet keeps them as the ledger does
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    # a failed cast or an overflow is an error, not a null
    "spark.sql.ansi.enabled": "true",
    # rows go to Python and back in columns
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What results depend on; a session in use is not changed, a sibling of it is made."""

_CONVENIENCE_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Mapping[str, str] = {"spark.driver.memory": "2g"}
_LOOPBACK = "127.0.0.1"
_LOOPBACK_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}
_PYTHON_SETTING = "spark.pyspark.python"
_JAVA_OPTIONS_SETTING = "spark.driver.extraJavaOptions"
_starting = threading.Lock()
_log = logging.getLogger(__name__)


def session(
    app_name: str = "icestream",
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session that computes the same on every machine.

    The first call starts Spark, with the Java that `icestream.spark.java.find_java` finds and, in
    local mode, with the Python that runs this program. While Spark runs, further calls return the
    active session if its settings are those asked for, else a sibling on the same Spark with
    settings and temporary views of its own; what only a new Spark could change is logged as a
    warning and left.

    Args:
        app_name: The name that the cluster shows.
        master: Where Spark runs: `local[*]`, `local[4]`, `spark://host:7077`, `yarn` ...; by
            default `local[*]`, in this process's own JVM on the loopback address.
        config: Settings of Spark, which go before the ones made here.

    Raises:
        NotFoundError: There is no Java that Spark could run on.
    """
    asked = dict(config or {})
    if master is not None:
        asked["spark.master"] = master
    with _starting:
        active = _active_session()
        return _start(app_name, asked) if active is None else _sibling(active, asked)


def _active_session() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _start(app_name: str, asked: dict[str, str]) -> SparkSession:
    master = asked.setdefault("spark.master", DEFAULT_MASTER)
    settings = _settings(master) | asked
    settings[_JAVA_OPTIONS_SETTING] = _java_options(asked.get(_JAVA_OPTIONS_SETTING, ""))
    builder = SparkSession.Builder().appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _variables(_environment(master, settings)):
        return builder.getOrCreate()


def _settings(master: str) -> dict[str, str]:
    settings = {**_CONVENIENCE_SETTINGS, **RESULT_SETTINGS}
    if _is_local(master):
        settings |= _LOCAL_SETTINGS
    if _is_on_loopback(master):
        settings |= _LOOPBACK_SETTINGS
    return settings


def _sibling(active: SparkSession, asked: Mapping[str, str]) -> SparkSession:
    wanted = {**RESULT_SETTINGS, **asked}
    differing = {key: value for key, value in wanted.items() if _setting(active, key) != value}
    own = {key: value for key, value in differing.items() if active.conf.isModifiable(key)}
    for key in differing.keys() - own.keys():
        _log.warning("Spark is running already: %s stays %s", key, _setting(active, key))
    if not own:
        return active
    sibling = active.newSession()
    for key, value in own.items():
        sibling.conf.set(key, value)
    return sibling


def _setting(active: SparkSession, key: str) -> str | None:
    return active.conf.get(key, None) or active.sparkContext.getConf().get(key, None)


def _java_options(asked: str) -> str:
    log_settings = Path(str(importlib.resources.files("icestream.spark") / "log4j2.properties"))
    # as a URI, because Spark splits options at spaces
    return f"-Dlog4j2.configurationFile={log_settings.as_uri()} {asked}".rstrip()


def _environment(master: str, settings: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables for Spark's processes; None takes one away."""
    home = find_java().home
    variables = {"JAVA_HOME": None if home is None else str(home)}
    own_python = None if _is_local(master) else os.environ.get("PYSPARK_PYTHON")
    # Spark does not look at this setting when it is given by a program
    python = settings.get(_PYTHON_SETTING) or own_python or sys.executable
    variables |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if _is_on_loopback(master):
        variables["SPARK_LOCAL_IP"] = _LOOPBACK
    return variables


@contextmanager
def _variables(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change variables of this process, which Spark inherits, for the time of its start."""
    before = {name: os.environ.get(name) for name in changes}
    _set_variables(changes)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _is_on_loopback(master: str) -> bool:
    if _is_local(master):
        return True
    host = urlsplit(master).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
