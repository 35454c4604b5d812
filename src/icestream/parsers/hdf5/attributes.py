"""Attributes of HDF5 objects, read with few calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from h5py import h5a, h5s, h5t

from icestream.parsers.plain_attributes import PlainValue, decoded_text, plain_value

INTERNAL = frozenset(
    {
        "CLASS",
        "DIMENSION_LABELS",
        "DIMENSION_LIST",
        "NAME",
        "REFERENCE_LIST",
        "_NCProperties",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_nc3_strict",
    }
)
"""What the libraries write for themselves; no user of a NetCDF library sees it."""


@dataclass(frozen=True, slots=True)
class RawAttributes:
    """The attributes of one object as they are in the file; each is read when it is asked for."""

    object_id: Any
    names: Mapping[str, bytes]
    """As text, and as they are spelled in the file."""
    _known: dict[str, npt.NDArray[Any] | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, object_id: Any) -> Self:
        """List the attributes of a group or dataset."""
        names: list[bytes] = []
        h5a.iterate(object_id, names.append)
        return cls(object_id, {decoded_text(name): name for name in names})

    def read(self, name: str) -> npt.NDArray[Any] | None:
        """Return an attribute; None if it is not there, or has a type but no value."""
        if name not in self._known:
            spelled = self.names.get(name)
            self._known[name] = _read(h5a.open(self.object_id, spelled)) if spelled else None
        return self._known[name]

    def text(self, name: str) -> str:
        """Return an attribute that is a text; empty if it is not there, or is none."""
        values = self.read(name)
        plain = None if values is None or values.size != 1 else plain_value(values)
        return plain if isinstance(plain, str) else ""

    def numbers(self, name: str) -> list[int]:
        """Return an attribute of whole numbers; empty if it is not there."""
        values = self.read(name)
        return [] if values is None else [int(value) for value in values.reshape(-1)]


def plain_attributes(raw: RawAttributes) -> tuple[dict[str, PlainValue], dict[str, str]]:
    """Return attributes as JSON holds them, and why others are not among them, by name."""
    plain: dict[str, PlainValue] = {}
    faults: dict[str, str] = {}
    for name in raw.names:
        if name in INTERNAL:
            continue
        try:
            values = raw.read(name)
            plain[name] = "" if values is None else plain_value(values)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            faults[name] = str(error)
    return plain, faults


def _read(attribute: h5a.AttrID) -> npt.NDArray[Any] | None:
    space = attribute.get_space()
    if space.get_simple_extent_type() == h5s.NULL:
        return None
    dtype = attribute.get_type().dtype
    values: npt.NDArray[Any] = np.empty(space.get_simple_extent_dims(), dtype)
    if dtype.subdtype is not None:  # NumPy has made its dimensions those of the array
        attribute.read(values, mtype=h5t.py_create(dtype))
    elif dtype.kind in "iuf" and dtype.metadata is None:
        attribute.read(values, mtype=_memory_type(dtype))
    else:
        attribute.read(values)
    return values


@lru_cache(maxsize=64)
def _memory_type(dtype: np.dtype[Any]) -> Any:
    """Return the HDF5 type of a dtype; making it takes longer than reading a number."""
    return h5t.py_create(dtype)
