"""Runs that start no processes for their scans, and that treat small arrays like large ones."""

from functools import partial
from typing import Any

import pytest

from icestream.ingest import staged_commits
from icestream.ingest.engines import scanning
from icestream.ingest.staging import array_routes
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.repository.staged.publishing import split_into_commits

NO_RULES = ChunkManifests((ManifestSet("default"),))
"""Every array has manifests of its own."""
CHUNKS_PER_COMMIT = 10
"""So few that a run of some files takes several commits."""


def scan_here(url: str, *, limits: Any = None, **options: Any) -> ScannedFile:
    """Scan a file in this process: to start another takes longer than all else in a test."""
    del limits
    return scan_file(url, **options)


def patch_quick_scans(patch: pytest.MonkeyPatch) -> None:
    """Let scans be done in this process."""
    patch.setattr(scanning, "scan_file_isolated", scan_here)


def patch_large_arrays(patch: pytest.MonkeyPatch, max_chunks: int = CHUNKS_PER_COMMIT) -> None:
    """Let all arrays be written as large ones are, in several commits on a branch of their own."""
    patch.setattr(array_routes, "LARGE_ARRAY", 1)
    split = partial(split_into_commits, max_chunks=max_chunks)
    patch.setattr(staged_commits, "split_into_commits", split)
