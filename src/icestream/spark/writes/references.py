"""Rows of the table `refs`, made into references of arrays: columns, never row by row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import AccessError, ErrorKind, InvalidInputError, NodeNotFoundError
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, lexicographic_order, replace_columns
from icestream.model.nodes import ArrayNode
from icestream.model.paths import absolute
from icestream.repository.session import ForkSession
from icestream.spark.writes.targets import WriteTarget
from icestream.spark.writes.written_tables import ArrayTables, join_tables, without_repeats
from icestream.zarr_store.checksums import checksum_columns
from icestream.zarr_store.virtual_refs import LocationPolicy, table_of_columns

_NEEDED: Mapping[str, pa.DataType] = {
    "array": pa.string(),
    "chunk": pa.list_(pa.int64()),
    "location": pa.string(),
    "byte_offset": pa.int64(),
    "length": pa.int64(),
}
_OPTIONAL: Mapping[str, pa.DataType] = {
    "kind": pa.string(),
    "etag": pa.string(),
    "last_modified": pa.timestamp("us", "UTC"),
}
_IGNORED = ("chunk_id",)
_ONCE = "leave one row for each chunk, for example with dropDuplicates(['array', 'chunk'])"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReferenceWriting:
    """Sets references to foreign objects; what tasks need for it."""

    target: WriteTarget
    validate_containers: bool = True

    @property
    def remedy(self) -> str:
        """What to do when two tasks have the same chunk."""
        return _ONCE

    def write(self, batches: Iterable[pa.RecordBatch]) -> ArrayTables:
        """Return the rows of a task as references, checked and as they are stored.

        Raises:
            InvalidInputError: A row is no reference to a chunk; the message names the first.
            NodeNotFoundError: There is no such array.
        """
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return {}
        fork = self.target.fork()
        rows = _conformed(pa.Table.from_batches(filled))
        parts = [
            {array.path: self._table(fork, array, part)} for array, part in _by_array(fork, rows)
        ]
        return join_tables(parts, remedy=_ONCE)

    def _table(self, fork: ForkSession, array: ArrayNode, rows: pa.Table) -> ChunkTable:
        index = _indexes(array, rows)
        _check_ranges(rows)
        # the store of a session sets boxes of references, here they come in any order
        copy = fork._copy  # noqa: SLF001
        wanted: dict[str, Any] = {"relative": None, "validate": self.validate_containers}
        policy = LocationPolicy(
            partial(copy.stored_locations, **wanted), partial(copy.refused_locations, **wanted)
        )
        _check_locations(rows, policy)
        table = table_of_columns(
            index,
            rows["location"],
            rows["byte_offset"].to_numpy(),
            rows["length"].to_numpy(),
            policy=policy,
            checksum=rows["etag"],
        )
        seconds = checksum_columns(rows["last_modified"], len(index)).seconds
        table = replace_columns(table, last_modified=seconds)
        order = lexicographic_order(table.index)
        table = table if order is None else table.take(order)
        return without_repeats(array.path, table, remedy=_ONCE)


def check_columns(names: Sequence[str]) -> None:
    """Refuse columns that do not make references.

    Raises:
        InvalidInputError: One is missing, or is not known.
    """
    missing = [name for name in _NEEDED if name not in names]
    unknown = [name for name in names if name not in {*_NEEDED, *_OPTIONAL, *_IGNORED}]
    if missing or unknown:
        faults = [f"has no column {name!r}" for name in missing]
        faults += [f"has the column {name!r}, which means nothing here" for name in unknown]
        raise _refused(
            f"the table of references {faults[0]}; it needs {', '.join(_NEEDED)} and may have "
            f"{', '.join(_OPTIONAL)}"
        )


def _conformed(rows: pa.Table) -> pa.Table:
    """Return all columns that references may have, in their types."""
    check_columns(rows.column_names)
    columns = {}
    for name, kind in {**_NEEDED, **_OPTIONAL}.items():
        if name not in rows.column_names:
            columns[name] = pa.chunked_array([pa.nulls(len(rows), kind)])
            continue
        try:
            columns[name] = rows[name].cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _refused(
                f"the column {name!r} has the type {rows[name].type}, and {kind} is needed: {error}"
            ) from error
    return pa.table(columns).combine_chunks()


def _by_array(fork: ForkSession, rows: pa.Table) -> Iterator[tuple[ArrayNode, pa.Table]]:
    """Yield the rows of each array."""
    _refuse(rows, rows["array"].is_null().to_numpy(), "rows have no array")
    encoded = rows["array"].combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    for number, path in enumerate(encoded.dictionary.to_pylist()):
        array = _array(fork, path)
        yield array, rows.take(pa.array(order[ends[number] : ends[number + 1]]))


def _array(fork: ForkSession, path: str) -> ArrayNode:
    copy = fork._copy  # noqa: SLF001  sessions show arrays through zarr only
    try:
        return copy.get_array(absolute(path))
    except NodeNotFoundError as error:
        raise NodeNotFoundError(
            f"there is no array {path}; create it with zarr before references are written to it"
        ) from error


def _indexes(array: ArrayNode, rows: pa.Table) -> npt.NDArray[np.uint32]:
    rank = len(array.shape)
    chunk = rows["chunk"].combine_chunks()
    lengths = chunk.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
    wrong = lengths != rank
    _refuse(rows, wrong, f"chunk must have {rank} numbers for {array.path}")
    flat = chunk.flatten()
    if flat.null_count:
        _refuse(
            rows,
            _row_any(flat.is_null().to_numpy(zero_copy_only=False), rank),
            "rows have nulls in chunk",
        )
    index: npt.NDArray[np.int64] = flat.to_numpy().reshape(len(rows), rank)
    outside = ((index < 0) | (index >= np.array(array.num_chunks, np.int64))).any(axis=1)
    _refuse(rows, outside, f"chunks are outside the grid {array.num_chunks} of {array.path}")
    return index.astype(np.uint32)


def _row_any(values: Mask, rank: int) -> Mask:
    found: Mask = values.reshape(-1, rank).any(axis=1)
    return found


def _check_ranges(rows: pa.Table) -> None:
    kinds = pc.fill_null(rows["kind"], ChunkType.virtual.name)
    other = pc.not_equal(kinds, ChunkType.virtual.name).to_numpy()
    _refuse(
        rows,
        other,
        "only references to foreign objects can be written, bytes of a repository stay in it: keep "
        "the rows where kind = 'virtual'",
    )
    for name, least in (("byte_offset", 0), ("length", 1)):
        wrong = pc.fill_null(pc.less(rows[name], least), True).to_numpy()  # noqa: FBT003  of Arrow
        _refuse(rows, wrong, f"{name} is null or below {least}")
    absent = pc.equal(pc.fill_null(rows["location"], ""), "").to_numpy()
    _refuse(rows, absent, "rows have no location")


def _check_locations(rows: pa.Table, policy: LocationPolicy) -> None:
    encoded = rows["location"].combine_chunks().dictionary_encode()
    pool = pa.chunked_array([encoded.dictionary.cast(pa.large_string())])
    refused = policy.refused(pool)
    if not refused.any():
        return
    first = pool.filter(pa.array(refused)).slice(0, 1)
    try:
        policy.store(first)
    except (InvalidInputError, AccessError) as error:
        faulty = refused[encoded.indices.to_numpy()]
        raise InvalidInputError(
            f"{error.message}; {_named(rows, faulty)}", kind=error.kind
        ) from error


def _refuse(rows: pa.Table, faulty: Mask, why: str) -> None:
    if faulty.any():
        raise _refused(f"{why}; {_named(rows, faulty)}")


def _named(rows: pa.Table, faulty: Mask) -> str:
    first = rows.slice(int(np.argmax(faulty)), 1).to_pylist()[0]
    names = ", ".join(f"{name} {first[name]!r}" for name in ("array", "chunk", "location"))
    return f"rows like that: {int(faulty.sum())}, the first: {names}"


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_VIRTUAL_REF)
