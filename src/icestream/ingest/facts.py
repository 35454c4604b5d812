"""What placement needs to know of a file: small values that travel from executors to the driver."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.archives import Archive, any_matches
from icestream.ingest.times.encodings import (
    MISSING,
    TimeEncoding,
    are_time_units,
    decode_times,
    parse_time_units,
)
from icestream.model.chunk_refs import ChunkType
from icestream.parsers.scanned_files import FileIdentity, ScannedArray, ScannedFile

MEANING = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units")
"""Attributes without which stored values mean something else; `calendar` goes with times."""

DIGEST_SIZE = 16
"""Bytes; values that need no more are their own digest."""

ALONG = -1
"""The length of a dimension along which files are put: it need not agree."""

_encode = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """What files must agree about to share an array; equal texts are equal things."""

    dimensions: tuple[str | None, ...]
    lengths: tuple[int, ...]
    """Of dimensions; those along which files are put are `ALONG`."""
    data_type: str = ""
    codecs: str = ""
    chunk_shape: tuple[int, ...] = ()
    fill_value: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    """Of `MEANING`, as JSON."""
    values: str = ""
    """A short form of all values, if they are copied and should be the same in all files."""

    def parts(self) -> dict[str, str]:
        """Return everything by the name that people have for it."""
        lengths = {
            f"length of {name or f'dimension {i}'}": str(length)
            for i, (name, length) in enumerate(zip(self.dimensions, self.lengths, strict=True))
            if length != ALONG
        }
        fields = {
            "dimensions": "(" + ", ".join(str(name) for name in self.dimensions) + ")",
            "dtype": self.data_type,
            "codecs": self.codecs,
            "chunk shape": str(self.chunk_shape),
            "fill value": self.fill_value,
            "values": self.values,
        }
        return fields | lengths | {f"attribute {key!r}": text for key, text in self.attributes}


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Values of a variable that is copied; times as microseconds."""

    values: npt.NDArray[Any] = field(compare=False)
    digest: bytes
    """Equal for equal values, if type and shape are equal."""
    time: TimeEncoding | None = None
    """How the file counted, if they are times."""

    @property
    def key(self) -> tuple[str, tuple[int, ...], bytes]:
        """Equal for equal values of an equal type and shape."""
        return self.values.dtype.str, self.values.shape, self.digest


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array of a file."""

    form: ArrayForm
    shape: tuple[int, ...]
    metadata: Mapping[str, Any]
    content: bytes | None = None
    """Digest of all bytes, where they are inline; the same for arrays of equal content."""
    num_references: int = 0


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file without its references."""

    url: str
    identity: FileIdentity
    arrays: Mapping[str, ArrayFacts]
    values: Mapping[str, Coordinate] = field(default_factory=dict)
    """Of the arrays that are copied."""
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    num_references: int = 0
    """Of the arrays that stay virtual."""
    num_referenced_bytes: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with arrays, by path."""


def facts_of(file: ScannedFile, archive: Archive) -> FileFacts:
    """Return what placement needs to know of a scanned file."""
    along = frozenset(axis.dimension for axis in archive.combine.along)
    bounds = _bounds_parents(file.arrays)
    arrays: dict[str, ArrayFacts] = {}
    values: dict[str, Coordinate] = {}
    faults: dict[str, str] = {}
    for path, array in file.arrays.items():
        if any_matches(archive.drop, path):
            continue
        attributes = _with_inherited(array, file.arrays.get(bounds.get(path, "")))
        if path in file.values:
            try:
                values[path] = _coordinate(file.values[path], attributes)
            except InvalidInputError as error:
                faults[path] = error.message
        form = form_of(array, along, attributes, values.get(path))
        arrays[path] = ArrayFacts(
            form, array.shape, array.metadata, _content(array), len(array.references)
        )
    return FileFacts(
        url=file.url,
        identity=file.identity,
        arrays=arrays,
        values=values,
        groups=file.groups,
        num_references=sum(
            array.num_references for path, array in arrays.items() if path not in values
        ),
        num_referenced_bytes=file.num_referenced_bytes,
        faults=faults,
    )


def form_of(
    array: ScannedArray,
    along: frozenset[str],
    attributes: Mapping[str, Any],
    copied: Coordinate | None = None,
) -> ArrayForm:
    """Return what files must agree about; of copied arrays only the meaning of their values."""
    dimensions = array.dimension_names
    lengths = tuple(
        ALONG if name in along else length
        for name, length in zip(dimensions, array.shape, strict=True)
    )
    is_time = are_time_units(attributes.get("units"))
    shown = "" if copied is None or ALONG in lengths else _shown(copied.values)
    if copied is not None and is_time:
        return ArrayForm(dimensions, lengths, values=shown)  # they are encoded anew
    names = (*MEANING, "calendar") if is_time else MEANING
    meaning = tuple((key, _text(attributes[key])) for key in names if key in attributes)
    if copied is not None:
        return ArrayForm(dimensions, lengths, attributes=meaning, values=shown)
    return ArrayForm(
        dimensions,
        lengths,
        _text(array.data_type),
        _text(array.codecs),
        array.chunk_shape,
        _text(array.fill_value),
        meaning,
    )


def _bounds_parents(arrays: Mapping[str, ScannedArray]) -> dict[str, str]:
    """Return by path of a boundary variable the path of the coordinate that it belongs to."""
    named = {
        path: array.attributes.get("bounds") or array.attributes.get("climatology")
        for path, array in arrays.items()
    }
    return {
        f"{path.rpartition('/')[0]}/{name}": path
        for path, name in named.items()
        if isinstance(name, str)
    }


def _with_inherited(array: ScannedArray, parent: ScannedArray | None) -> Mapping[str, Any]:
    """Return attributes with those that the CF conventions let boundaries leave out."""
    if parent is None:
        return array.attributes
    taken = {
        key: parent.attributes[key] for key in ("units", "calendar") if key in parent.attributes
    }
    return {**taken, **array.attributes}


def _coordinate(values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> Coordinate:
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > np.float64().itemsize:
        raise InvalidInputError("its values are no numbers, so files cannot be placed by it")
    units = attributes.get("units")
    if not are_time_units(units):
        return Coordinate(values, _digest(values))
    if "scale_factor" in attributes or "add_offset" in attributes:
        raise InvalidInputError("times that are scaled are not supported; leave it out of `loaded`")
    time = parse_time_units(str(units), attributes.get("calendar"))
    fill = attributes.get("_FillValue", attributes.get("missing_value"))
    moments = decode_times(values, time)
    if isinstance(fill, int | float):
        moments = np.where(values == fill, MISSING, moments)
    return Coordinate(moments, _digest(moments), time)


def _shown(values: npt.NDArray[Any]) -> str:
    """Return a text that is equal for equal values, also of another type."""
    if not values.size:
        return "none"
    numbers = values.astype(np.float64)
    numbers += 0.0  # there is a zero with a sign
    digest = hashlib.blake2b(np.ascontiguousarray(numbers).tobytes(), digest_size=4).hexdigest()
    return f"{numbers.flat[0]:g} to {numbers.flat[-1]:g} (digest {digest})"


def _digest(values: npt.NDArray[Any]) -> bytes:
    content = np.ascontiguousarray(values).tobytes()
    if len(content) <= DIGEST_SIZE:
        return content.ljust(DIGEST_SIZE, b"\0")
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()


def _content(array: ScannedArray) -> bytes | None:
    table = array.references
    if table.inline is None or not bool((table.kind == ChunkType.inline).all()):
        return None
    digest = hashlib.blake2b(table.index.tobytes(), digest_size=DIGEST_SIZE)
    for chunk in table.inline.to_pylist():
        digest.update(len(chunk).to_bytes(8, "little") + chunk)
    return digest.digest()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value)
