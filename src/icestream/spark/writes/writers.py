"""The writers behind `df.write.format("icestream")`.

Spark makes the writer when the write is planned, runs `write` in each task and `commit` when all
have ended well, each in a process of its own. What failed tasks leave behind is never referred to;
garbage collection removes it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from icestream.errors import ErrorKind, InvalidInputError
from icestream.spark.task_environments import TaskEnvironment
from icestream.spark.writes.cell_rows import plan_rows
from icestream.spark.writes.cells import CellWriting
from icestream.spark.writes.options import WriteOptions, parse_write_options
from icestream.spark.writes.part_manifests import TaskReferences, commit_parts, write_parts
from icestream.spark.writes.references import ReferenceWriting, check_columns
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.spark.writes.written_tables import ArrayTables


class Writing(Protocol):
    """What tasks do with rows; picklable."""

    @property
    def target(self) -> WriteTarget:
        """Where to."""

    @property
    def remedy(self) -> str:
        """What to do when two tasks have the same chunk."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> ArrayTables:
        """Return the references that the rows of a task become."""


@dataclass
class WrittenMessage(WriterCommitMessage):
    """What a task tells the driver."""

    references: TaskReferences


class IcestreamWriter(DataSourceArrowWriter):
    """Writes rows in tasks, and makes one commit of them."""

    def __init__(self, writing: Writing, words: CommitWords) -> None:
        self._writing = writing
        self._words = words
        self._environment = TaskEnvironment.of_driver()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessage:
        """Write the rows of a task."""
        self._environment.apply(os.environ)
        tables = self._writing.write(iterator)
        return WrittenMessage(write_parts(self._writing.target.fork(), tables))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make what all tasks wrote a version."""
        written = [one.references for one in messages if isinstance(one, WrittenMessage)]
        target, remedy = self._writing.target, self._writing.remedy
        commit_parts(target, written, self._words, remedy=remedy)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave everything as it is: Spark calls this also after a commit whose answer was lost."""


def make_writer(
    options: Mapping[str, str], columns: Sequence[str], *, overwrite: bool
) -> IcestreamWriter:
    """Return the writer that options ask for, on the version that is the newest now.

    Raises:
        IcestreamError: There is none; the message says what is wrong, and the way out.
    """
    if overwrite:
        raise InvalidInputError(
            "the mode overwrite would drop what is not in the rows; mode('append') sets the cells "
            "or references that are",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    wanted = parse_write_options(options)
    return IcestreamWriter(_writing(wanted, columns), wanted.words)


def _writing(wanted: WriteOptions, columns: Sequence[str]) -> Writing:
    if wanted.is_references:
        check_columns(columns)
    target = WriteTarget.of(wanted.open(), wanted.branch)
    if wanted.is_references:
        return ReferenceWriting(target, wanted.validate_containers)
    store = target.pinned.session.store
    return CellWriting(target, plan_rows(store, wanted.query, columns, indexes=wanted.indexes))
