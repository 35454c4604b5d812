"""What tasks have written, as they tell the driver: references, not yet part of any version."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_tables import ChunkTable, concat
from icestream.repository.session import Session

type ArrayTables = Mapping[str, ChunkTable]
"""References by the path of their array."""


def join_tables(parts: Iterable[ArrayTables], *, remedy: str) -> ArrayTables:
    """Return the references of several tasks as one table per array.

    Raises:
        InvalidInputError: A chunk is in more than one of them, so that one would be lost.
    """
    by_path: defaultdict[str, list[ChunkTable]] = defaultdict(list)
    for part in parts:
        for path, table in part.items():
            if len(table):
                by_path[path].append(table)
    return {
        path: without_repeats(path, concat(tables), remedy=remedy)
        for path, tables in by_path.items()
    }


def put_tables(session: Session, tables: ArrayTables) -> None:
    """Set references in a session; they are part of its next commit."""
    for path, table in tables.items():
        session._copy.put_table(path, table)  # noqa: SLF001  sessions take single references only


def without_repeats(path: str, table: ChunkTable, *, remedy: str) -> ChunkTable:
    """Return a sorted table, unless a chunk is in it twice.

    Raises:
        InvalidInputError: One is.
    """
    repeated = (table.index[1:] == table.index[:-1]).all(axis=1)
    if not repeated.any():
        return table
    chunk = tuple(table.index[int(np.argmax(repeated))].tolist())
    raise InvalidInputError(
        f"{int(repeated.sum())} chunks of {path} are written more than once, the first is chunk "
        f"{chunk}; {remedy}",
        kind=ErrorKind.INVALID_ARGUMENT,
    )
