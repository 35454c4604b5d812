"""What is measured: one operation on one kind of data, by one of the two libraries."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class Shape(StrEnum):
    """How chunks lie in the objects that they refer to."""

    FILE = "file"
    """Ten thousand chunks in each of few files."""
    OBJECT = "object"
    """Every chunk an object of its own."""


class Inputs(StrEnum):
    """How the caller holds the locations."""

    ARROW = "arrow"
    """A dictionary-encoded Arrow array."""
    TEXTS = "texts"
    """A `list[str]`, the only form that icechunk takes."""


class Checksums(StrEnum):
    """What references record of their objects, so that changes are noticed."""

    NONE = "none"
    """Nothing: changes go unnoticed."""
    ONE = "one"
    """One time of last modification for all, as icechunk has it."""
    ETAGS = "etags"
    """A column of ETags, one per object."""
    SECONDS = "seconds"
    """A column of times, one per object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operation on so many references, or chunks."""

    operation: str
    """The name of a measured function, see `benchmarks.operations`."""
    references: int
    shape: Shape = Shape.FILE
    inputs: Inputs = Inputs.ARROW
    checksums: Checksums = Checksums.ONE

    @property
    def label(self) -> str:
        """A short name, for progress messages and `--only`."""
        choices = f"{self.shape}-{self.inputs}-{self.checksums}"
        return f"{self.operation}-{self.references}-{choices}"

    @property
    def peer(self) -> Self:
        """The case as icechunk can do it: texts, and one checksum if any."""
        is_checked = self.checksums is not Checksums.NONE
        return replace(
            self,
            inputs=Inputs.TEXTS,
            checksums=Checksums.ONE if is_checked else Checksums.NONE,
        )

    def scaled(self, references: int) -> Self:
        """Return the case with another number of references."""
        return replace(self, references=references)

    def to_json(self) -> dict[str, Any]:
        """Return the case as plain values."""
        return {
            "operation": self.operation,
            "references": self.references,
            "shape": str(self.shape),
            "inputs": str(self.inputs),
            "checksums": str(self.checksums),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the case of plain values."""
        return cls(
            operation=values["operation"],
            references=values["references"],
            shape=Shape(values["shape"]),
            inputs=Inputs(values["inputs"]),
            checksums=Checksums(values["checksums"]),
        )


def repository_folder(work: Path, library: str, case: Case) -> Path:
    """Return where the references of a case are kept, shared by all operations on them."""
    return work / f"{library}-{case.shape}-{case.references}-{case.checksums}"


def chunks_folder(work: Path, library: str, case: Case) -> Path:
    """Return where the native chunks of a case are kept."""
    return work / f"{library}-native-{case.references}"


def virtual_folder(work: Path, library: str, case: Case) -> Path:
    """Return where the repository is kept whose chunks are parts of one foreign object."""
    place = "server" if "server" in case.operation else "file"
    return work / f"{library}-virtual-{place}-{case.references}-{case.checksums}"
