"""What a parser finds in one file: groups, arrays, references, and what it could not express."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_tables import ChunkTable


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The state of a file when it was opened; references to it are good for this state only."""

    size: int
    """Bytes."""
    etag: str | None = None
    """Without the quotes around it."""
    last_modified: datetime | None = None
    """Aware; None where the store does not tell."""


@dataclass(frozen=True, slots=True)
class ScanCost:
    """What a scan asked of stores; files of this machine cost nothing."""

    num_requests: int = 0
    num_bytes: int = 0
    """That were read."""

    def __add__(self, other: "ScanCost") -> "ScanCost":
        return ScanCost(self.num_requests + other.num_requests, self.num_bytes + other.num_bytes)


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """Something in a file that references cannot express."""

    reason: str
    """In words for people: what it is, and what would help."""
    path: str | None = None
    """Of the array or group that it concerns; None is the file."""
    is_fatal: bool = True
    """Whether the thing at `path` is missing from the result; else it is there, but not all."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True, slots=True, eq=False)
class ScannedArray:
    """One array of a file."""

    metadata: Mapping[str, Any]
    """The document zarr.json of a Zarr 3 array, with attributes and dimension names."""
    references: ChunkTable
    """Its chunks; small ones and texts are inline. Those that are missing hold the fill value."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension."""
        return tuple(self.metadata["shape"])

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Elements that one reference covers, per dimension."""
        return tuple(self.metadata["chunk_grid"]["configuration"]["chunk_shape"])

    @property
    def data_type(self) -> Any:
        """As Zarr names it: a text, or a mapping with `name` and `configuration`."""
        return self.metadata["data_type"]

    @property
    def codecs(self) -> tuple[Mapping[str, Any], ...]:
        """How each chunk is encoded."""
        return tuple(self.metadata["codecs"])

    @property
    def fill_value(self) -> Any:
        """The value of missing chunks, as JSON holds it."""
        return self.metadata["fill_value"]

    @property
    def dimension_names(self) -> tuple[str | None, ...]:
        """The name of each dimension; None where the file has none."""
        names = self.metadata.get("dimension_names")
        return tuple(names) if names else (None,) * len(self.shape)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What the file says about the array, as JSON holds it."""
        attributes: Mapping[str, Any] = self.metadata.get("attributes", {})
        return attributes


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFile:
    """All that one file contributes to a repository. Picklable."""

    url: str
    """The location in every reference that is not inline."""
    identity: FileIdentity
    parser: str
    """Name of the parser that was used."""
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Attributes by path; the root `/` is always there."""
    arrays: Mapping[str, ScannedArray] = field(default_factory=dict)
    """By path, such as `/sst` or `/forecast/sst`."""
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Decoded values of the arrays that were asked for (`load`), by path; not scaled, no CF."""
    problems: tuple[ScanProblem, ...] = ()
    cost: ScanCost = field(default_factory=ScanCost)
    """Of the scan; requests that a parser of others sends by itself are not in it."""

    @property
    def num_references(self) -> int:
        """References in all arrays together."""
        return sum(len(array.references) for array in self.arrays.values())

    @property
    def num_referenced_bytes(self) -> int:
        """Bytes of the file that references cover."""
        return sum(int(np.sum(a.references.length)) for a in self.arrays.values())
