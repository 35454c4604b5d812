"""What staging works with, and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from icestream.ingest.engines.protocol import Engine, ScannedReferences
from icestream.ingest.engines.scanning import ScanJob
from icestream.ingest.progress import Progress
from icestream.model.chunk_tables import ChunkTable
from icestream.repository.session import Session
from icestream.repository.staged.cells import CellPlan, WrittenCell
from icestream.repository.working_copy import WorkingCopy


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scans:
    """All scans of a run."""

    job: ScanJob
    ordinals: Mapping[str, int] = field(default_factory=dict)
    """By URL of the file."""
    references: tuple[ScannedReferences, ...] = ()

    @property
    def num_ordinals(self) -> int:
        """One more than the highest ordinal."""
        return max(self.ordinals.values(), default=-1) + 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Workbench:
    """Everything at hand while a run is staged."""

    session: Session
    """On the version that the updates were planned for."""
    urls: Sequence[str]
    """Of the files of the placement that the updates lead to."""
    scans: Scans
    engine: Engine
    progress: Progress
    known: Mapping[str, Sequence[ChunkTable]] = field(default_factory=dict)
    """References that no scan brings, at their places, by path of the array."""

    @property
    def copy(self) -> WorkingCopy:
        """What the session edits; it takes whole tables of references."""
        return self.session._copy  # noqa: SLF001  sessions offer single references, and no tables


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StagedRun:
    """A run that only lacks its commit."""

    session: Session
    cells: Mapping[str, tuple[CellPlan, Sequence[WrittenCell]]] = field(default_factory=dict)
    num_references: int = 0
    """Those that are new."""

    @property
    def manifest_ids(self) -> frozenset[bytes]:
        """Of the version that the session is on: the newest one when it is committed."""
        return frozenset(self.session._copy.snapshot.manifest_files)  # noqa: SLF001  as above
