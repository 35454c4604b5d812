"""A walk through one HDF5 file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5g, h5l, h5o, h5s, h5t

from icestream.errors import ErrorKind, SourceError
from icestream.model.paths import ROOT
from icestream.parsers.array_documents import array_document, encoded_cf_fill_value
from icestream.parsers.file_contents import FileContents, Loading
from icestream.parsers.hdf5.attributes import RawAttributes, plain_attributes
from icestream.parsers.hdf5.dimensions import (
    DimensionNames,
    Dimensions,
    is_bare_dimension,
    variable_name,
)
from icestream.parsers.hdf5.layouts import layout_of
from icestream.parsers.hdf5.texts import is_text, read_texts, text_fill_value, text_layout
from icestream.parsers.plain_attributes import decoded_text
from icestream.parsers.scanned_files import ScannedArray, ScanProblem
from icestream.parsers.source_files import RangedFile, SourceFile

_HDF5_FAULTS = (KeyError, OSError, RuntimeError, TypeError, ValueError)
"""What h5py raises where one object of a file is broken or beyond it."""


def scan_hdf5(source: SourceFile, loading: Loading) -> FileContents:
    """Return what an HDF5 or NetCDF4 file holds; its chunks are not read."""
    place = source.local_path or cast("BinaryIO", RangedFile(source))
    with h5py.File(place, "r", locking=False) as file:
        return _Scan(source, file, loading).run()


@dataclass(frozen=True, slots=True)
class _Found:
    """A dataset on the way."""

    path: str
    id: h5d.DatasetID
    raw: RawAttributes


class _Scan:
    """One walk, and what it has found so far."""

    def __init__(self, source: SourceFile, file: h5py.File, loading: Loading) -> None:
        self._source = source
        self._root = h5g.open(file.id, b"/")
        self._loading = loading
        self._names = DimensionNames(file.id)
        self._contents = FileContents()
        self._seen_groups: set[int] = set()

    def run(self) -> FileContents:
        found = list(self._walk(self._root, ROOT))
        self._names.learn((one.path, _length(one.id), one.raw) for one in found)
        for dataset in found:
            if is_bare_dimension(dataset.raw):
                continue
            try:
                self._add(dataset)
            except (SourceError, *_HDF5_FAULTS) as error:
                self._contents.problems.append(ScanProblem(str(error), dataset.path))
        return self._contents

    def _walk(self, group: h5g.GroupID, path: str) -> Iterator[_Found]:
        attributes, faults = plain_attributes(RawAttributes.of(group))
        self._contents.groups[path] = attributes
        self._contents.report(path, faults)
        self._seen_groups.add(h5o.get_info(group).addr)
        for raw_name in group:
            below = f"{path.rstrip('/')}/{variable_name(decoded_text(raw_name))}"
            try:
                yield from self._visit(_opened(group, raw_name), below)
            except (SourceError, *_HDF5_FAULTS) as error:
                self._contents.problems.append(ScanProblem(str(error), below))

    def _visit(self, member: Any, path: str) -> Iterator[_Found]:
        if isinstance(member, h5d.DatasetID):
            yield _Found(path, member, RawAttributes.of(member))
        elif isinstance(member, h5g.GroupID):
            if h5o.get_info(member).addr in self._seen_groups:
                raise SourceError("it is another name of a group that is there already")
            yield from self._walk(member, path)

    def _add(self, dataset: _Found) -> None:
        path, contents = dataset.path, self._contents
        attributes, faults = plain_attributes(dataset.raw)
        is_of_texts, dtype = _type_of(dataset.id)
        if is_of_texts:
            high_level = h5py.Dataset(dataset.id)
            layout, fill_value = text_layout(high_level), text_fill_value(high_level)
        else:
            layout, fill_value = layout_of(self._source, dataset.id), _fill_value(dataset.id)
        _encode_fill_value(attributes, dataset.raw, dtype)
        dimensions = self._names.of(path, dataset.id.shape, dataset.raw)
        document = array_document(
            _grown_shape(dataset.id, dimensions),
            layout.chunk_shape,
            dtype,
            codecs=layout.codecs,
            fill_value=fill_value,
            dimension_names=dimensions.names,
            attributes=attributes,
        )
        array = contents.arrays[path] = ScannedArray(document, layout.references)
        contents.report(path, faults)
        if self._loading.wants(path, array):
            contents.values[path] = _values(dataset.id)
        if h5t.check_enum_dtype(dataset.id.dtype):
            reason = "it is an enumeration, of which the numbers are kept but not their names"
            contents.problems.append(ScanProblem(reason, path, is_fatal=False))


def _opened(group: h5g.GroupID, name: bytes) -> Any:
    """Return a member of a group.

    Raises:
        SourceError: It is in another file.
    """
    if group.links.get_info(name).type == h5l.TYPE_EXTERNAL:
        raise SourceError(
            "it is a link to another file; scan that one too", kind=ErrorKind.UNIMPLEMENTED
        )
    return h5o.open(group, name)


def _type_of(dataset: h5d.DatasetID) -> tuple[bool, np.dtype[Any]]:
    """Return whether values are texts of any length, and the dtype of them in Zarr.

    Raises:
        SourceError: They are of a type that Zarr has not.
    """
    dtype = dataset.dtype
    if dataset.shape is None:
        raise SourceError("it has a type but no values (a null dataspace)")
    if is_text(dtype):
        return True, np.dtypes.StringDType()
    fields = dtype.fields or {}
    packed = sum(field[0].itemsize for field in fields.values())
    if dtype.subdtype is not None or (fields and packed != dtype.itemsize):
        raise _inexpressible(f"elements are {dtype}, arrays or with gaps")
    if dtype.hasobject:
        raise _inexpressible("elements have no fixed size (lists, references or texts in records)")
    return False, dtype


def _inexpressible(what: str) -> SourceError:
    return SourceError(
        f"its {what}, for which Zarr has no data type; copy the variable instead",
        kind=ErrorKind.UNIMPLEMENTED,
    )


def _length(dataset: h5d.DatasetID) -> int:
    return dataset.shape[0] if dataset.shape else 0


def _grown_shape(dataset: h5d.DatasetID, dimensions: Dimensions) -> list[int]:
    """Return the shape of a variable; one that may grow is as long as its dimension.

    NetCDF lengthens a dimension that has no limit, but not the variables that nobody wrote to:
    what they lack holds the fill value.
    """
    limits = dataset.get_space().get_simple_extent_dims(maxdims=True)
    return [
        max(length, scale_length) if limit == h5s.UNLIMITED else length
        for length, scale_length, limit in zip(
            dataset.shape, dimensions.scale_lengths, limits, strict=True
        )
    ]


def _fill_value(dataset: h5d.DatasetID) -> Any:
    properties = dataset.get_create_plist()
    if properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
        return None
    value: npt.NDArray[Any] = np.zeros((), dataset.dtype)
    properties.get_fill_value(value)
    return value[()]


def _encode_fill_value(
    attributes: dict[str, Any], raw: RawAttributes, dtype: np.dtype[Any]
) -> None:
    value = raw.read("_FillValue") if "_FillValue" in attributes else None
    if value is not None and value.size:
        attributes["_FillValue"] = encoded_cf_fill_value(value, dtype)


def _values(dataset: h5d.DatasetID) -> npt.NDArray[Any]:
    high_level = h5py.Dataset(dataset)
    return read_texts(high_level) if is_text(dataset.dtype) else np.asarray(high_level[()])
