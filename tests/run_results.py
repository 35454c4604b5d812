"""All that the runs of an archive leave behind, as values that can be compared."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tables import Refs, refs_of

from icestream.ingest.declaration.archives import Archive
from icestream.ingest.opened_archives import OpenedArchive, Places, open_archive
from icestream.ingest.publishing.checkpoints import last_checkpoint
from icestream.ingest.publishing.run_history import run_history
from icestream.ingest.publishing.run_snapshots import run_snapshots
from icestream.ingest.runs import target_of
from icestream.model.chunk_refs import InlineRef, NativeRef
from icestream.model.nodes import ArrayNode
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.repository.staged.publishing import STAGING_PREFIX
from icestream.storage import local_filesystem_storage

FileRow = tuple[str, str, str | None, str | None, int]
"""URL, status, ETag, old ETag and references."""


def places_in(folder: Path) -> Places:
    """Return a repository and a ledger in a folder, wherever the declaration has them."""
    return Places(
        repository=local_filesystem_storage(str(folder / "repository")),
        ledger=local_filesystem_storage(str(folder / "ledger")),
    )


@dataclass(frozen=True)
class RunResults:
    """What can be read in the repository, and what the ledger tells."""

    documents: dict[str, Any]
    """Of all groups and arrays."""
    references: dict[str, Refs]
    """Of all arrays, by chunk."""
    committed: list[int]
    """Numbers of the runs that made a version, oldest first."""
    files: list[list[FileRow]]
    """What each run says of files, oldest run first."""
    state: bytes
    """What the next run goes by."""


def documents_of(repository: Repository) -> dict[str, Any]:
    """Return the documents of all groups and arrays on the branch main."""
    nodes = repository.readonly_session("main")._copy.snapshot.nodes
    return {path: json.loads(node.user_data) for path, node in sorted(nodes.items())}


def references_of(repository: Repository) -> dict[str, Refs]:
    """Return the references of all arrays on the branch main, bytes where we have them."""
    session = repository.readonly_session("main")
    return {
        path: {
            index: _bytes_of(session, path, index) if isinstance(ref, NativeRef) else ref
            for index, ref in refs_of(session.reference_table(path)).items()
        }
        for path, node in sorted(session._copy.snapshot.nodes.items())
        if isinstance(node, ArrayNode)
    }


def _bytes_of(session: Session, path: str, index: tuple[int, ...]) -> InlineRef:
    found = session._copy.find_chunk(path, index)
    assert found is not None
    return InlineRef(session._copy.read(found, None))


def file_rows(opened: OpenedArchive) -> list[list[FileRow]]:
    """Return what each run says of files, oldest run first."""
    rows = opened.ledger.ingest.to_arrow()
    columns = ("url", "status", "etag", "old_etag", "references")
    found: list[FileRow] = list(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    by_run = []
    for run in reversed(run_history(target_of(opened))):
        count = sum(run.counts.values())
        by_run.append(found[:count])
        found = found[count:]
    assert not found
    return by_run


def results_of(archive: Archive, places: Places | None = None) -> RunResults:
    """Read everything; what has to hold after any run is checked."""
    opened = open_archive(archive, places)
    repository, ingest = opened.repository, opened.ledger.ingest
    snapshots = list(run_snapshots(repository, archive.target.branch, archive.name))
    checkpoint = last_checkpoint(ingest)
    assert checkpoint is not None
    assert not [name for name in repository.list_branches() if name.startswith(STAGING_PREFIX)]
    assert opened.ledger.inventory.verify().is_valid
    assert ingest.verify(inputs=[opened.ledger.inventory]).is_valid
    runs = run_history(target_of(opened))
    # the ledger knows every version that runs made, and no other
    assert [run.block for run in runs if run.snapshot_id] == [found.block for found in snapshots]
    assert [run.snapshot_id for run in runs if run.snapshot_id] == [
        found.snapshot_id for found in snapshots
    ]
    assert checkpoint.last_commit == (snapshots[0].run if snapshots else None)
    files = file_rows(opened)
    for of_run in files:
        urls = [url for url, *_ in of_run]
        assert sorted(set(urls)) == urls
    return RunResults(
        documents=documents_of(repository),
        references=references_of(repository),
        committed=[found.run for found in snapshots][::-1],
        files=files,
        state=checkpoint.state,
    )
