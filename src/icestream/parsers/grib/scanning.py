"""A walk through the messages of one GRIB file."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import eccodes
import numpy as np
import numpy.typing as npt

from icestream.errors import SourceError
from icestream.model.paths import ancestors_of
from icestream.parsers.array_documents import array_document
from icestream.parsers.file_contents import FileContents, Loading
from icestream.parsers.file_references import inline_chunks, references_to
from icestream.parsers.grib.cells import Cell, cell_of
from icestream.parsers.grib.codec import GribCodec
from icestream.parsers.grib.fields import decode_message, grid_places
from icestream.parsers.grib.messages import (
    MessageRange,
    find_messages,
    opened_message,
    single_field,
)
from icestream.parsers.scanned_files import ScannedArray, ScanProblem
from icestream.parsers.source_files import SourceFile

_FLOAT = np.dtype("<f8")
_TIME = {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}
_COORDINATES: Mapping[str, Mapping[str, Any]] = {
    "time": {**_TIME, "standard_name": "forecast_reference_time", "axis": "T"},
    "step": {"units": "hours", "standard_name": "forecast_period", "long_name": "time since start"},
    "number": {"standard_name": "realization", "units": "1"},
    "level": {"long_name": "level, of the type that names the group"},
}
_ORDER = ("number", "time", "step", "level")
_MOST_POINTS = 1 << 19


def scan_grib(source: SourceFile, loading: Loading) -> FileContents:
    """Return the messages of a GRIB file, by type of level and name of variable."""
    del loading  # all coordinates are made here
    contents = FileContents()
    content = memoryview(source.read(0, source.size))  # messages are spread over all of it
    cells = list(_cells(content, contents))
    if not cells and not contents.problems:
        raise SourceError(f"{source.url} has no GRIB message")
    grids = {cell.grid for cell in cells}
    by_group: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        below = f"/grid_{cell.grid[:8]}" if len(grids) > 1 else ""
        by_group[f"/{cell.level_type}{below}"].append(cell)
    places: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for path, members in by_group.items():
        contents.groups |= {group: {} for group in ancestors_of(path) if group != "/"}
        _Group(source, path, members, contents, places).add(content)
    return contents


def _cells(content: memoryview, contents: FileContents) -> Iterator[Cell]:
    """Yield what messages say, and note those of which nothing can be made."""
    for number, message in enumerate(find_messages(content)):
        where = f"message {number} at byte {message.offset}"
        if message.fault is not None:
            contents.problems.append(ScanProblem(f"{where} is left out: {message.fault}"))
            continue
        for field in range(message.fields) if message.fields > 1 else (None,):
            try:
                yield _read(_bytes_of(content, message, field), message, field)
            except (eccodes.CodesInternalError, SourceError, ValueError) as error:
                contents.problems.append(ScanProblem(f"{where} is left out: {error}"))


def _bytes_of(content: memoryview, message: MessageRange, field: int | None) -> bytes:
    data = bytes(content[message.offset : message.offset + message.length])
    return data if field is None else single_field(data, field)


def _read(data: bytes, message: MessageRange, field: int | None) -> Cell:
    with opened_message(data) as handle:
        cell = cell_of(handle, message, field)
    fault = _packing_fault(cell.packing, data)
    if fault is not None:
        raise SourceError(f"{cell.name} on {cell.level_type}: {fault}")
    return cell


_judged: dict[str, str | None] = {}
"""By packing: why it cannot be decoded on this machine, or None."""


def _packing_fault(packing: str, data: bytes) -> str | None:
    """Return why no codec decodes a packing; the first message of each is tried."""
    if packing not in _judged:
        try:
            decode_message(data)
            _judged[packing] = None
        except eccodes.CodesInternalError as error:
            return f"the packing {packing} is not decoded ({error})"
    return _judged[packing]


@dataclass(frozen=True, slots=True)
class _Group:
    """The messages of one type of level on one grid."""

    source: SourceFile
    path: str
    cells: Sequence[Cell]
    contents: FileContents
    places: dict[str, dict[str, npt.NDArray[Any]]]
    """Latitudes and longitudes by grid; making them takes long."""

    def add(self, content: memoryview) -> None:
        """Add the group, its coordinates and variables."""
        axes = self._axes()
        self.contents.groups[self.path] = {}
        for name, values in axes.items():
            self._add_coordinate(name, (name,), values, _COORDINATES[name])
        first = self.cells[0]
        plain = ("y", "x") if len(first.shape) > 1 else ("values",)
        dimensions = self._add_places(content, first, plain)
        by_name: defaultdict[str, list[Cell]] = defaultdict(list)
        for cell in self.cells:
            by_name[cell.name].append(cell)
        for name, members in by_name.items():
            path = f"{self.path}/{name}"
            self._add_variable(path, self._of_one_field(path, members), axes, dimensions)

    def _axes(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the values along each dimension; levels that are all zero are none."""
        axes = {}
        for name in _ORDER:
            places = {cell.place.get(name, 0.0) for cell in self.cells}
            if name in {"time", "step"} or places != {0.0} or self._any_has(name):
                axes[name] = np.array(sorted(places))
        return axes

    def _any_has(self, name: str) -> bool:
        return name != "level" and any(name in cell.place for cell in self.cells)

    def _of_one_field(self, path: str, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return the messages that hold a variable in the same field; a codec takes one of them."""
        alike = [cell for cell in cells if cell.field == cells[0].field]
        if len(alike) < len(cells):
            reason = f"{len(cells) - len(alike)} messages hold it in another field than the first"
            self.contents.problems.append(ScanProblem(reason, path, is_fatal=False))
        return alike

    def _add_variable(
        self,
        path: str,
        cells: Sequence[Cell],
        axes: Mapping[str, npt.NDArray[np.float64]],
        dimensions: tuple[str, ...],
    ) -> None:
        index = np.stack(
            [
                np.searchsorted(values, [cell.place.get(name, 0.0) for cell in cells])
                for name, values in axes.items()
            ],
            axis=1,
        )
        _, kept = np.unique(index, axis=0, return_index=True)
        if len(kept) < len(cells):
            self.contents.problems.append(
                ScanProblem(
                    f"{len(cells) - len(kept)} of {len(cells)} messages are left out: they differ "
                    "from others in something that is no dimension",
                    path,
                    is_fatal=False,
                )
            )
        shape = cells[0].shape
        places = np.zeros((len(kept), index.shape[1] + len(shape)), np.uint32)
        places[:, : index.shape[1]] = index[kept]
        ranges = [cells[row].message for row in kept]
        document = array_document(
            [*map(len, axes.values()), *shape],
            [*[1] * len(axes), *shape],
            _FLOAT,
            serializer=GribCodec(cells[0].field).to_dict(),
            fill_value=np.nan,
            dimension_names=[*axes, *dimensions],
            attributes=cells[0].attributes,
        )
        references = references_to(
            self.source, places, [one.offset for one in ranges], [one.length for one in ranges]
        )
        self.contents.arrays[path] = ScannedArray(document, references)

    def _add_places(
        self, content: memoryview, cell: Cell, dimensions: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Add latitudes and longitudes where the grid has them, and return its dimensions."""
        points = math.prod(cell.shape)
        if points > _MOST_POINTS and not cell.attributes["GRIB_gridType"].startswith("regular"):
            reason = f"the latitudes and longitudes of {points} points are not kept"
            self.contents.problems.append(ScanProblem(reason, self.path, is_fatal=False))
            return dimensions
        places = self.places.get(cell.grid)
        if places is None:
            data = _bytes_of(content, cell.message, cell.field)
            places = self.places[cell.grid] = grid_places(data)
        for name, values in places.items():
            if values.ndim == 1 and len(dimensions) > 1:
                own: tuple[str, ...] = (name,)
            else:
                own = dimensions
            units = {"units": f"degrees_{'north' if name == 'latitude' else 'east'}"}
            self._add_coordinate(name, own, values, {**units, "standard_name": name})
        is_regular = len(dimensions) > 1 and all(one.ndim == 1 for one in places.values())
        return tuple(places) if places and is_regular else dimensions

    def _add_coordinate(
        self,
        name: str,
        dimensions: tuple[str, ...],
        values: npt.NDArray[Any],
        attributes: Mapping[str, Any],
    ) -> None:
        stored = np.ascontiguousarray(values, _FLOAT)
        document = array_document(
            stored.shape,
            stored.shape,
            _FLOAT,
            fill_value=np.nan,
            dimension_names=dimensions,
            attributes=attributes,
        )
        chunks = inline_chunks({(0,) * stored.ndim: stored.tobytes()}, stored.ndim)
        path = f"{self.path}/{name}"
        self.contents.arrays[path] = ScannedArray(document, chunks)
        self.contents.values[path] = stored
