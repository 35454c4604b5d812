"""Arrays that describe another one by the CF conventions, as far as they go along with it.

A derived array has the auxiliary coordinates, the grid mapping and the cell measures of its input,
unless they depend on the dimension that is grouped. What is left behind is not named either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.abc.store import Store

_COORDINATES = "coordinates"
_GRID_MAPPING = "grid_mapping"
_NAMING = (
    *(_COORDINATES, _GRID_MAPPING, "bounds", "climatology", "ancillary_variables"),
    *("cell_measures", "formula_terms"),
)
"""Attributes that name other arrays."""


@dataclass(frozen=True, slots=True)
class Companion:
    """An array that is copied as it is, but for attributes that name what is left behind."""

    name: str
    path: str
    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any]


def find_companions(
    store: Store,
    folder: str,
    attributes: Mapping[str, Any],
    *,
    coordinates: Iterable[str],
    along: str,
) -> tuple[tuple[Companion, ...], dict[str, Any]]:
    """Return the arrays that go along with an array, and its attributes, which name no others.

    Args:
        store: Where they are.
        folder: The group of the array.
        attributes: Of the array.
        coordinates: The coordinates of its dimensions, which go along in any case.
        along: The dimension that does not stay as it is.
    """
    group = zarr.open_group(store, path=folder.strip("/"), mode="r", zarr_format=3)
    known = _Neighbours(group, along)
    kept = known.consistent(attributes)
    found: dict[str, Companion] = {}
    waiting = [*coordinates, *_all_names(kept)]
    while waiting:
        name = waiting.pop(0)
        companion = None if name in found else known.get(name)
        if companion is not None:
            found[name] = companion
            waiting += _all_names(companion.attributes)
    return tuple(found.values()), kept


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The arrays of a group that do not depend on a dimension."""

    group: zarr.Group
    along: str

    def get(self, name: str) -> Companion | None:
        """Return an array; None if it cannot go along."""
        array = self._array(name)
        if array is None:
            return None
        kept = self.consistent(dict(array.attrs))
        return Companion(name, array.path, _dimensions(array), kept)

    def consistent(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes without those that name arrays which do not go along."""
        kept: dict[str, Any] = {}
        for key, value in attributes.items():
            if key == _COORDINATES:
                names = [name for name in _names(key, value) if self._array(name) is not None]
                kept |= {key: " ".join(names)} if names else {}
            elif key not in _NAMING or self._has_all(_names(key, value)):
                kept[key] = value
        return kept

    def _has_all(self, names: Iterable[str]) -> bool:
        return all(self._array(name) is not None for name in names)

    def _array(self, name: str) -> "zarr.Array[Any] | None":
        is_neighbour = "/" not in name and name not in {".", ".."}
        found = self.group.get(name) if is_neighbour else None
        if not isinstance(found, zarr.Array):
            return None
        dimensions = _dimensions(found)
        is_free = len(dimensions) == found.ndim and self.along not in dimensions
        return found if is_free else None


def _dimensions(array: "zarr.Array[Any]") -> tuple[str, ...]:
    """Return the names of dimensions, as far as they have any."""
    named = getattr(array.metadata, "dimension_names", None) or ()
    return tuple(name for name in named if name)


def _all_names(attributes: Mapping[str, Any]) -> Iterator[str]:
    for key in _NAMING:
        yield from _names(key, attributes.get(key, ""))


def _names(key: str, value: Any) -> list[str]:
    """Return the arrays that an attribute names; words with a colon are keys but for mappings."""
    words = value.split() if isinstance(value, str) else []
    if key == _GRID_MAPPING:
        return [word.rstrip(":") for word in words]
    return [word for word in words if not word.endswith(":")]
