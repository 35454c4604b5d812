"""Logs of failures that are told anyway: one error in place of the traces of three languages."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.sql import SparkSession

_OF_JAVA = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)
"""Who logs that a task or a stream has failed, with all calls that led there."""
_OF_PYTHON = "py4j.clientserver"
_FAILS_ONCE = re.compile(r"local(\[[^,\]]+\])?")
"""Where a task is not tried again: the first failure is what the job fails with."""


@contextmanager
def told_once(session: SparkSession) -> Iterator[None]:
    """Keep Spark from logging why a job fails that is run inside: it is raised.

    On a cluster, and where tasks are tried again, all is logged: a job may go on after a failure,
    and nothing else would tell.
    """
    context = session.sparkContext
    if not _FAILS_ONCE.fullmatch(context.master or ""):
        yield
        return
    logger = logging.getLogger(_OF_PYTHON)
    was_silent, logger.disabled = logger.disabled, True
    # of pyspark: it has a level for all of Spark alone
    log4j: Any = context._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    levels = {name: log4j.LogManager.getLogger(name).getLevel() for name in _OF_JAVA}
    try:
        for name in _OF_JAVA:
            log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
        yield
    finally:
        logger.disabled = was_silent
        with suppress(Py4JError, OSError):  # a Spark that ended logs no more
            for name, level in levels.items():
                log4j.core.config.Configurator.setLevel(name, level)
