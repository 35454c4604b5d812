"""Readers and writers of the format take the driver's way to stores along to tasks."""

import os
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from icestream.spark.data_source import IcestreamReader
from icestream.spark.writes.targets import CommitWords
from icestream.spark.writes.writers import IcestreamWriter

NAME = "GOOGLE_SECRET_OF_A_TEST"


@dataclass
class Looking:
    """Rows, and a place for them, that only look at the environment."""

    schema: pa.Schema = field(default_factory=lambda: pa.schema({}))
    remedy: str = ""

    @property
    def target(self) -> Any:
        return self

    def fork(self) -> None:
        """A task has nothing that would be written through a session."""

    def parts(self) -> list[int]:
        return [0]

    def read(self, part: int) -> Iterator[Any]:
        yield part, os.environ[NAME]

    def write(self, batches: Iterable[Any]) -> Any:
        del batches
        return {os.environ[NAME]: []}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(NAME, "hidden")
    return monkeypatch


def test_a_reader_takes_it_along(driver: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(IcestreamReader(Looking()))
    driver.delenv(NAME)

    arrived = pickle.loads(sent)

    assert list(arrived.read(InputPartition(0))) == [(0, "hidden")]


def test_a_writer_takes_it_along(driver: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(IcestreamWriter(Looking(), CommitWords()))
    driver.delenv(NAME)

    arrived = pickle.loads(sent)

    assert arrived.write(iter(())).references.tables == {"hidden": []}
