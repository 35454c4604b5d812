"""Named columns of any lengths as bytes: a line that says what follows, then Arrow data.

Integers are kept as differences to the one before, so that counters, constants and regular times
take next to no room. The line carries a version and a checksum: bytes that were damaged, or that a
newer program wrote, are told apart.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, FormatError, IntegrityError

_HEADER = re.compile(rb"icestream ([a-z-]+) (\d{1,9}) ([0-9a-f]{32})\n")
_MAX_HEADER = 100
_LEVEL = 3


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBundle:
    """Columns by name, and all that is no column."""

    columns: Mapping[str, pa.Array]
    document: Mapping[str, Any]
    """Plain values for JSON."""

    def integers(self, name: str) -> npt.NDArray[np.int64]:
        """Return a column of integers, which the caller must not change.

        Raises:
            FormatError: There is none.
        """
        steps = self.column(name).to_numpy(zero_copy_only=False)
        return np.cumsum(steps, dtype=np.int64)

    def column(self, name: str) -> pa.Array:
        """Return a column as it is.

        Raises:
            FormatError: There is none.
        """
        try:
            return self.columns[name]
        except KeyError:
            raise FormatError(f"the column {name!r} is missing: write it anew") from None


def differences(values: npt.NDArray[Any]) -> pa.Array:
    """Return integers as a column for `ColumnBundle.integers`; rows of a matrix are joined."""
    plain = values.astype(np.int64, copy=False).reshape(-1)
    return pa.array(np.diff(plain, prepend=np.int64(0)))


def encode_bundle(bundle: ColumnBundle, kind: str, version: int) -> bytes:
    """Return columns as bytes, the same for the same columns.

    Args:
        bundle: The columns.
        kind: What they are, in lower case with `-`.
        version: Of their form.
    """
    lists = {
        name: pa.LargeListArray.from_arrays(pa.array([0, len(column)], pa.int64()), column)
        for name, column in bundle.columns.items()
    }
    document = json.dumps(bundle.document, sort_keys=True, separators=(",", ":")).encode()
    table = pa.table({**lists, "": pa.array([document], pa.large_binary())})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", _LEVEL))
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return f"icestream {kind} {version} {_checksum(body)}\n".encode() + body


def decode_bundle(data: bytes, kind: str, version: int) -> ColumnBundle:
    """Return the columns that `encode_bundle` encoded.

    Raises:
        FormatError: The bytes are something else, or of a newer version.
        IntegrityError: They were damaged.
    """
    found = _HEADER.match(data[:_MAX_HEADER])
    if found is None or found[1].decode() != kind:
        raise FormatError(
            f"this is no {kind} of icestream: it starts with {data[:16]!r}",
            kind=ErrorKind.INVALID_FILE_FORMAT,
        )
    if int(found[2]) > version:
        raise FormatError(
            f"the {kind} has version {int(found[2])}, and this program knows versions up to "
            f"{version}: use a newer icestream",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    body = memoryview(data)[found.end() :]
    if _checksum(body) != found[3].decode():
        raise IntegrityError(f"the {kind} of {len(data)} bytes is damaged: its checksum differs")
    return _unpacked(body, kind)


def _unpacked(body: memoryview, kind: str) -> ColumnBundle:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all().combine_chunks()
        document = json.loads(table.column("")[0].as_py())
        columns = {name: table.column(name).chunk(0).values for name in table.column_names if name}
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise FormatError(
            f"the {kind} cannot be read: {error}", kind=ErrorKind.DESERIALIZATION
        ) from error
    return ColumnBundle(columns, document)


def _checksum(body: bytes | memoryview) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
