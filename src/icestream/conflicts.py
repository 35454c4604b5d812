"""Conflicts and their solvers, under the public names of the icechunk package."""

from icestream.model.conflicts import (
    BasicConflictSolver,
    Conflict,
    ConflictDetector,
    ConflictSolver,
    ConflictType,
    VersionSelection,
)

__all__ = [
    "BasicConflictSolver",
    "Conflict",
    "ConflictDetector",
    "ConflictSolver",
    "ConflictType",
    "VersionSelection",
]
