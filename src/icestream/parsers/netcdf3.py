"""Files of the classic NetCDF formats (CDF-1, CDF-2 and CDF-5): everything is in their header.

VirtualiZarr reads them too, but replaces what is not UTF-8; many of these files are older than it.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, SourceError
from icestream.model.chunk_tables import ChunkTable
from icestream.parsers.array_documents import array_document, encoded_cf_fill_value
from icestream.parsers.file_contents import FileContents, Loading
from icestream.parsers.file_references import references_to
from icestream.parsers.plain_attributes import PlainValue, decoded_text, plain_value
from icestream.parsers.scanned_files import ScannedArray
from icestream.parsers.source_files import SourceFile

_TYPES = {
    number: np.dtype(name)
    for number, name in enumerate(
        ("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8"), start=1
    )
}
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_CDF_1, _CDF_5 = 1, 5
_MOST_ENTRIES = 1 << 24
"""More is the sign of a broken header."""


@dataclass(frozen=True, slots=True)
class _Dimension:
    name: str
    length: int
    """Zero is the dimension of records."""


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    dimensions: Sequence[_Dimension]
    attributes: dict[str, npt.NDArray[Any] | str]
    dtype: np.dtype[Any]
    begin: int

    @property
    def has_records(self) -> bool:
        return bool(self.dimensions) and self.dimensions[0].length == 0

    @property
    def record_bytes(self) -> int:
        """Bytes of all values, or of those of one record."""
        fixed = self.dimensions[1:] if self.has_records else self.dimensions
        return math.prod(dimension.length for dimension in fixed) * self.dtype.itemsize


def scan_netcdf3(source: SourceFile, loading: Loading) -> FileContents:
    """Return what a file of a classic NetCDF format holds."""
    del loading  # values are read through the references
    with source.reader() as file:
        header = _Header(source, file)
        contents = FileContents()
        records = header.number()
        dimensions = [
            _Dimension(header.name(), header.number()) for _ in header.entries(_DIMENSIONS)
        ]
        contents.groups["/"] = _plain(header.attributes())
        variables = [header.variable(dimensions) for _ in header.entries(_VARIABLES)]
    stride = _record_stride(variables)
    if records == header.unknown_number:
        records = _count_records(source, variables, stride)
    for variable in variables:
        contents.arrays[f"/{variable.name}"] = _array(source, variable, records, stride)
    return contents


def _array(source: SourceFile, variable: _Variable, records: int, stride: int) -> ScannedArray:
    shape = [dimension.length for dimension in variable.dimensions]
    chunk_shape = [max(length, 1) for length in shape]
    if variable.has_records:
        shape[0], chunk_shape[0] = records, 1
    attributes = _plain(variable.attributes)
    fill_value = variable.attributes.get("_FillValue")
    if isinstance(fill_value, np.ndarray) and fill_value.size:
        attributes["_FillValue"] = encoded_cf_fill_value(fill_value, variable.dtype)
    document = array_document(
        shape,
        chunk_shape,
        variable.dtype,
        dimension_names=[dimension.name for dimension in variable.dimensions],
        attributes=attributes,
    )
    return ScannedArray(document, _references(source, variable, shape, stride))


def _references(
    source: SourceFile, variable: _Variable, shape: Sequence[int], stride: int
) -> ChunkTable:
    if not math.prod(shape):
        return ChunkTable.empty(len(shape))
    count = shape[0] if variable.has_records else 1
    numbers = np.arange(count, dtype=np.uint64)
    index = np.zeros((count, len(shape)), np.uint32)
    if variable.has_records:
        index[:, 0] = numbers
    lengths = np.full(count, variable.record_bytes, np.uint64)
    return references_to(source, index, variable.begin + numbers * np.uint64(stride), lengths)


def _record_stride(variables: Sequence[_Variable]) -> int:
    """Return the bytes from one record to the next; those of a single variable are not padded."""
    sizes = [variable.record_bytes for variable in variables if variable.has_records]
    return sizes[0] if len(sizes) == 1 else sum(size + -size % 4 for size in sizes)


def _count_records(source: SourceFile, variables: Sequence[_Variable], stride: int) -> int:
    begins = [variable.begin for variable in variables if variable.has_records]
    return (source.size - min(begins)) // stride if begins and stride else 0


def _plain(attributes: dict[str, npt.NDArray[Any] | str]) -> dict[str, PlainValue]:
    return {
        name: value if isinstance(value, str) else plain_value(value)
        for name, value in attributes.items()
    }


class _Header:
    """Reads the header of a file, from its first byte on."""

    def __init__(self, source: SourceFile, file: io.BufferedIOBase) -> None:
        self._source = source
        self._file = file
        magic = self._bytes(4)
        version = magic[3]
        self._number_bytes = 8 if version == _CDF_5 else 4
        self._offset_bytes = 4 if version == _CDF_1 else 8
        self.unknown_number = (1 << 8 * self._number_bytes) - 1
        """Stands where the writer did not come back to say how many records there are."""

    def number(self) -> int:
        """Return a count or a length."""
        return int.from_bytes(self._bytes(self._number_bytes))

    def name(self) -> str:
        """Return a name."""
        return decoded_text(self._padded(self.number()))

    def entries(self, expected: int) -> range:
        """Return the numbers of the entries of a list, which may be absent."""
        tag, count = int.from_bytes(self._bytes(4)), self.number()
        if (tag and tag != expected) or count > _MOST_ENTRIES:
            raise self._broken()
        return range(count if tag else 0)

    def attributes(self) -> dict[str, npt.NDArray[Any] | str]:
        """Return a list of attributes; texts are texts, all others arrays."""
        return dict(self._attribute() for _ in self.entries(_ATTRIBUTES))

    def variable(self, dimensions: Sequence[_Dimension]) -> _Variable:
        """Return a variable."""
        name = self.name()
        axes = [self.number() for _ in range(min(self.number(), _MOST_ENTRIES))]
        attributes, dtype = self.attributes(), self._dtype()
        self.number()  # its size, which is wrong where it does not fit: what is needed follows
        begin = int.from_bytes(self._bytes(self._offset_bytes))
        if any(axis >= len(dimensions) for axis in axes):
            raise self._broken()
        return _Variable(name, [dimensions[axis] for axis in axes], attributes, dtype, begin)

    def _attribute(self) -> tuple[str, npt.NDArray[Any] | str]:
        name, dtype, count = self.name(), self._dtype(), self.number()
        raw = self._padded(count * dtype.itemsize)
        return name, decoded_text(raw) if dtype.kind == "S" else np.frombuffer(raw, dtype)

    def _dtype(self) -> np.dtype[Any]:
        number = int.from_bytes(self._bytes(4))
        if number not in _TYPES:
            raise self._broken()
        return _TYPES[number]

    def _padded(self, size: int) -> bytes:
        """Return some bytes, and skip those that fill them up to a multiple of four."""
        return self._bytes(size + -size % 4)[:size]

    def _bytes(self, size: int) -> bytes:
        found = self._file.read(size) if size <= self._source.size else b""
        if len(found) < size:
            raise self._broken()
        return found

    def _broken(self) -> SourceError:
        return SourceError(
            f"the NetCDF header of {self._source.url} is broken, or cut short",
            kind=ErrorKind.INVALID_FILE_FORMAT,
        )
