"""The grid that variables of a group share, and the columns that its cells have."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.errors import ContainsArrayError, GroupNotFoundError

from icestream.errors import ErrorKind, InvalidInputError, NodeNotFoundError
from icestream.spark.cells.decoding import Decoding, decoding_of, index_decoding

_NAMED_ELSEWHERE = ("bounds", "grid_mapping", "climatology", "ancillary_variables")
"""Attributes that name arrays which describe others, and are not variables by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQuery:
    """Which arrays are wanted as columns."""

    array: str | None = None
    """The path of one array; else all variables of a group."""
    group: str = "/"
    variables: tuple[str, ...] | None = None
    decode: bool = True

    @property
    def folder(self) -> str:
        """The group that the arrays are in."""
        return self.group if self.array is None else _parent(self.array)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The variables, None for all that the group has."""
        return self.variables if self.array is None else (self.array.rstrip("/").split("/")[-1],)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of cells."""

    name: str
    path: str | None
    """Of its array; None counts the positions along its dimension."""
    dimensions: tuple[int, ...]
    """Of the grid, those that its values depend on, in the order in which they are stored."""
    decoding: Decoding


@dataclass(frozen=True, slots=True)
class Grid:
    """Dimensions with their lengths, and the columns of the cells."""

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    """How long a piece is that whole chunks of all variables fit into."""
    columns: tuple[Column, ...]
    """The coordinates of dimensions, other coordinates, variables."""

    def coordinate(self, name: str) -> Column:
        """Return the coordinate of a dimension.

        Raises:
            InvalidInputError: There is none of this name.
        """
        if name not in self.dimensions:
            raise InvalidInputError(
                f"select names {name!r}, which is no coordinate of a dimension; those are "
                f"{', '.join(self.dimensions) or 'none'}",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        return self.columns[self.dimensions.index(name)]


@dataclass(frozen=True, slots=True)
class _Found:
    """An array of the group, as its metadata tell."""

    name: str
    path: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]

    @property
    def is_coordinate(self) -> bool:
        """Whether it says where the positions of the dimension of its name are."""
        return self.dimensions == (self.name,)

    def names_in(self, *attributes: str) -> set[str]:
        """Return the names of arrays that attributes hold."""
        texts = (str(self.attributes.get(attribute, "")) for attribute in attributes)
        return {word.rstrip(":") for text in texts for word in text.split()}

    def __str__(self) -> str:
        sizes = zip(self.dimensions, self.shape, strict=True)
        return f"{self.name}({', '.join(f'{name}: {size}' for name, size in sizes)})"


def find_grid(store: Store, query: CellQuery) -> Grid:
    """Return the grid of the wanted variables.

    Raises:
        NodeNotFoundError: There is no such group or array.
        InvalidInputError: The variables are on different grids, or Spark has no type for one.
    """
    arrays = _arrays_of(store, query.folder)
    variables = _variables(arrays, query)
    _check_one_grid(variables)
    first = variables[0]
    dimensions = [_dimension(name, arrays, first, query) for name in first.dimensions]
    others = [_column(array, first, query) for array in _auxiliaries(arrays, variables)]
    values = [_column(array, first, query) for array in variables]
    columns = (*dimensions, *others, *values)
    _check_names(column.name for column in columns)
    return Grid(first.dimensions, first.shape, _common_chunks(variables), columns)


def variables_among(store: Store, group: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return those names that are arrays of a group, and not coordinates of dimensions or others.

    Raises:
        NodeNotFoundError: There is no such group.
    """
    arrays = _arrays_of(store, group)
    found = [arrays[name] for name in names if name in arrays and not arrays[name].is_coordinate]
    described = set().union(*(array.names_in("coordinates") for array in found))
    return tuple(array.name for array in found if array.name not in described)


def _arrays_of(store: Store, folder: str) -> dict[str, _Found]:
    try:
        group = zarr.open_group(store, path=folder.strip("/"), mode="r", zarr_format=3)
    except ContainsArrayError as error:
        raise InvalidInputError(
            f"{folder} is an array, not a group; name it with the option array",
            kind=ErrorKind.NOT_A_GROUP,
        ) from error
    except (GroupNotFoundError, FileNotFoundError) as error:
        raise NodeNotFoundError(f"there is no group {folder}; table=nodes lists all") from error
    return {name: _found(name, array) for name, array in group.arrays()}


def _found(name: str, array: "zarr.Array[Any]") -> _Found:
    named = getattr(array.metadata, "dimension_names", None) or (None,) * array.ndim
    dimensions = tuple(text or f"dim_{number}" for number, text in enumerate(named))
    return _Found(
        name,
        array.path,
        dimensions,
        array.shape,
        tuple(array.shards or array.chunks),
        array.dtype,
        dict(array.attrs),
    )


def _variables(arrays: Mapping[str, _Found], query: CellQuery) -> list[_Found]:
    if query.names is None:
        found = _all_variables(arrays.values())
    else:
        unknown = [name for name in query.names if name not in arrays]
        if unknown:
            raise NodeNotFoundError(
                f"the group {query.folder} has no array {', '.join(unknown)}; it has "
                f"{', '.join(sorted(arrays)) or 'none'}"
            )
        found = [arrays[name] for name in query.names]
    if not found:
        raise NodeNotFoundError(
            f"the group {query.folder} has no variables; name another with the option group, or "
            "one of its arrays with the option array"
        )
    return found


def _all_variables(arrays: Iterable[_Found]) -> list[_Found]:
    arrays = list(arrays)
    described = set().union(*(array.names_in("coordinates", *_NAMED_ELSEWHERE) for array in arrays))
    return sorted(
        (a for a in arrays if not a.is_coordinate and a.name not in described),
        key=lambda array: array.name,
    )


def _check_one_grid(variables: Sequence[_Found]) -> None:
    first = variables[0]
    if any((a.dimensions, a.shape) != (first.dimensions, first.shape) for a in variables):
        raise InvalidInputError(
            f"variables are on different grids: {', '.join(map(str, variables))}; choose those of "
            "one grid with the option variables, and join them by their coordinates",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    if len(set(first.dimensions)) < len(first.dimensions):
        raise InvalidInputError(
            f"{first} has two dimensions of one name, which cannot be two columns; rename one",
            kind=ErrorKind.INVALID_ARGUMENT,
        )


def _auxiliaries(arrays: Mapping[str, _Found], variables: Sequence[_Found]) -> list[_Found]:
    """Return the arrays that variables name as their coordinates, as far as they fit the grid."""
    first = variables[0]
    sizes = dict(zip(first.dimensions, first.shape, strict=True))
    named = set().union(*(array.names_in("coordinates") for array in variables))
    named -= {array.name for array in variables} | set(first.dimensions)
    return [
        array
        for name in sorted(named)
        if (array := arrays.get(name)) is not None
        and all(sizes.get(d) == n for d, n in zip(array.dimensions, array.shape, strict=True))
        and len(set(array.dimensions)) == len(array.dimensions)
    ]


def _dimension(name: str, arrays: Mapping[str, _Found], first: _Found, query: CellQuery) -> Column:
    array = arrays.get(name)
    number = first.dimensions.index(name)
    if array is None or not array.is_coordinate or array.shape != (first.shape[number],):
        return Column(name, None, (number,), index_decoding())
    return _column(array, first, query)


def _column(array: _Found, first: _Found, query: CellQuery) -> Column:
    decoding = decoding_of(array.name, array.dtype, array.attributes, decode=query.decode)
    dimensions = tuple(first.dimensions.index(name) for name in array.dimensions)
    return Column(array.name, array.path, dimensions, decoding)


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(
                f"the column {name!r} would be there twice: an array has the name of a dimension "
                "whose coordinate it is not; leave it out with the option variables",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        seen.add(name)


def _common_chunks(variables: Sequence[_Found]) -> tuple[int, ...]:
    """Return a length per dimension at which chunks of all variables end, if there is a short one.

    Otherwise it is that of the longest chunks, and some others are read twice.
    """
    lengths = []
    for size, chunks in zip(
        variables[0].shape, zip(*(array.chunks for array in variables), strict=True), strict=True
    ):
        longest = max(chunks)
        common = math.lcm(*chunks)
        lengths.append(max(1, min(size, common if common <= 4 * longest else longest)))
    return tuple(lengths)


def _parent(path: str) -> str:
    return "/" + "/".join(path.strip("/").split("/")[:-1])


def parse_names(text: str) -> tuple[str, ...]:
    """Return names that are written with commas between them, or as a JSON list."""
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    try:
        return tuple(map(str, json.loads(text)))
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{text!r} is no JSON list of names: {error}") from error
