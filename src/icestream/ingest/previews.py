"""What a run would do, told from listings and the ledger; no file is opened, nothing is written."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.ingest.archive_states import ArchiveState, decode_state
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.inventory import changes_since, known_files
from icestream.ingest.listing import list_sources
from icestream.ingest.progress import SILENT, Progress
from icestream.ingest.publishing.checkpoints import last_checkpoint
from icestream.ingest.publishing.ledger_side import ArchiveLedger, find_ledger, ledger_address
from icestream.ingest.scanning_ahead import access_ahead
from icestream.ingest.work_plans import SourceChanges, plan_work
from icestream.ledger.blocks.events import ExecuteTransform
from icestream.ledger.data.merging.differences import distinct_rows
from icestream.ledger.workspace import Workspace
from icestream.storage.urls import StorageUrl

_SHOWN = 10
_IDENTITY = ("size", "etag", "last_modified")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPreview:
    """What a run would find to do."""

    archive: str
    num_listed: int
    num_new: int = 0
    num_changed: int = 0
    num_vanished: int = 0
    to_scan: tuple[str, ...] = ()
    """New and changed files, and those that were set aside."""
    to_remove: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.to_scan and not self.to_remove

    def tree(self) -> dict[str, Any]:
        """Return the preview as plain values for JSON."""
        return {**asdict(self), "is_empty": self.is_empty}

    def text(self) -> str:
        """Return the preview for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (
            f"{self.archive}: {self.num_listed} files listed, {self.num_new} new, "
            f"{self.num_changed} changed, {self.num_vanished} vanished; a run would scan "
            f"{len(self.to_scan)} and remove {len(self.to_remove)}"
        )
        for title, urls in {"scan": self.to_scan, "remove": self.to_remove}.items():
            yield from (f"  {title} {url}" for url in urls[:_SHOWN])
            if len(urls) > _SHOWN:
                yield f"  and {len(urls) - _SHOWN} more to {title}"
        yield from self.notes
        yield "nothing was changed"


def preview_run(
    archive: Archive, *, include_undone: bool = False, progress: Progress = SILENT
) -> RunPreview:
    """Return what a run would find to do.

    Args:
        archive: The declaration.
        include_undone: As for a run.
        progress: Who is told.

    Raises:
        NotFoundError: A source has no files.
        SourceError: Files changed or vanished, and the policy is to fail then.
        StorageError: A store fails.
    """
    progress.stage("list")
    listing = list_sources(archive, access_ahead(archive))
    progress.advance(len(listing))
    ledger = find_ledger(Workspace(StorageUrl(address=ledger_address(archive)).storage()), archive)
    state = ArchiveState() if ledger is None else _state(ledger)
    changes = _changes(ledger, listing.table)
    work = plan_work(state, changes, archive, include_undone=include_undone)
    return RunPreview(
        archive=archive.name,
        num_listed=len(listing),
        num_new=work.num_new,
        num_changed=work.num_changed,
        num_vanished=work.num_vanished,
        to_scan=work.to_scan,
        to_remove=tuple(sorted(work.removed)),
        notes=work.notes,
    )


def _state(ledger: ArchiveLedger) -> ArchiveState:
    checkpoint = last_checkpoint(ledger.ingest)
    return ArchiveState() if checkpoint is None else decode_state(checkpoint.state)


def _changes(ledger: ArchiveLedger | None, listed: pa.Table) -> SourceChanges:
    """Return what differs from what the last run knew.

    That is what listings have recorded since, of runs that came no further, and what this one has.
    """
    urls = listed.column("url").to_pylist()
    if ledger is None:
        return SourceChanges(present=urls, added=urls)
    recorded = changes_since(ledger.inventory, _consumed(ledger))
    known = known_files(ledger.inventory)
    present = {*urls}
    added = {*_urls(recorded.added), *_added(known, listed)} & present
    changed = {*_urls(recorded.changed), *_changed(known, listed)} & present - added
    vanished = {*_urls(recorded.vanished), *_added(listed, known)} - present
    return SourceChanges(
        present=urls, added=sorted(added), changed=sorted(changed), vanished=sorted(vanished)
    )


def _consumed(ledger: ArchiveLedger) -> int | None:
    """Return the offset of the inventory up to which runs have come."""
    event = ledger.ingest.state.data_event
    inputs = event.query_inputs if isinstance(event, ExecuteTransform) else ()
    return inputs[0].last_offset if inputs else None


def _added(before: pa.Table, after: pa.Table) -> list[str]:
    """Return the files that only the second listing has."""
    urls = after.column("url")
    return _urls(after.filter(pc.invert(pc.is_in(urls, before.column("url").combine_chunks()))))


def _changed(before: pa.Table, after: pa.Table) -> list[str]:
    """Return the files that both listings have, in different states."""
    rows = pc.index_in(after.column("url"), before.column("url").combine_chunks())
    after = after.filter(pc.is_valid(rows))
    before = before.take(rows.drop_null())
    flags = [distinct_rows(before.column(name), after.column(name)) for name in _IDENTITY]
    return _urls(after.filter(pa.array(np.logical_or.reduce(flags))))


def _urls(table: pa.Table) -> list[str]:
    urls: list[str] = table.column("url").to_pylist()
    return urls
