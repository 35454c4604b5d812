"""Small runs of an archive, whose only work is to note their files in an attribute."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import zarr
from tests.ingest_builders import archive

from icestream.ingest.inventory import changes_since, record_listing
from icestream.ingest.listing import FILE_SCHEMA, FileListing
from icestream.ingest.publishing.ledger_side import follow_declaration, open_ledger, plan_run
from icestream.ingest.publishing.publish import Published, RunOutput, publish
from icestream.ingest.publishing.recovery import RunTarget, recover
from icestream.ingest.publishing.rows import ROW_SCHEMA, FileStatus
from icestream.ingest.publishing.steps import AfterStep, ignore_step
from icestream.ledger.workspace import Workspace
from icestream.model.conflicts import BasicConflictSolver
from icestream.repository.repository import Repository
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ATTRIBUTE = "files"


@dataclass
class World:
    """A repository and a ledger, and a writer of both."""

    ledger_storage: Storage = field(default_factory=InMemoryStorage)
    repository_storage: Storage = field(default_factory=InMemoryStorage)

    def target(self) -> RunTarget:
        """Return both as a process finds them that has just started."""
        repository = Repository.open_or_create(self.repository_storage)
        ledger = open_ledger(Workspace(self.ledger_storage), archive())
        return RunTarget(ledger, repository, "main")

    def files(self) -> list[str]:
        """Return the files that the repository has."""
        repository = Repository.open(self.repository_storage)
        store = repository.readonly_session("main").store
        found: Any = zarr.open_group(store, mode="r").attrs.get(ATTRIBUTE, [])
        return list(found)

    def recorded(self) -> list[tuple[str, str]]:
        """Return the files that the ledger has, and what became of them."""
        rows = self.target().ledger.ingest.to_arrow()
        pairs = zip(rows["url"].to_pylist(), rows["status"].to_pylist(), strict=True)
        return list(pairs)


def listing(*urls: str) -> FileListing:
    """Return a listing of files of one size."""
    n = len(urls)
    columns = [
        pa.array(sorted(urls), pa.string()),
        pa.array([10] * n, pa.int64()),
        pa.array([f"etag-{url}" for url in sorted(urls)], pa.string()),
        pa.array([NOON] * n, pa.timestamp("us", "UTC")),
    ]
    return FileListing(pa.table(columns, schema=FILE_SCHEMA), 1)


def rows_of(urls: list[str], status: FileStatus) -> pa.Table:
    """Return the rows of a run."""
    rows = [
        {"event_time": NOON, "url": url, "status": status.value, "references": 2} for url in urls
    ]
    return pa.Table.from_pylist(rows, schema=ROW_SCHEMA)


def run(
    target: RunTarget,
    *urls: str,
    broken: bool = False,
    after_step: AfterStep = ignore_step,
    before_publish: Callable[[], object] = lambda: None,
) -> Published | None:
    """Run an archive that has these files now; new ones are ingested, or set aside if broken."""
    basis = recover(target)
    ledger = target.ledger
    follow_declaration(ledger, archive())
    record_listing(ledger.inventory, listing(*urls))
    plan = plan_run(ledger)
    [entry] = plan.query_inputs
    added = changes_since(ledger.inventory, entry.prev_offset).added["url"].to_pylist()
    state = "" if basis.checkpoint is None else basis.checkpoint.state.decode()
    known = list(filter(None, state.split(",")))
    new = [url for url in added if url not in known]
    status = FileStatus.SET_ASIDE if broken else FileStatus.INGESTED
    session = target.repository.writable_session(target.branch)
    if new and not broken:
        group = zarr.open_group(session.store, mode="a")
        theirs: Any = group.attrs.get(ATTRIBUTE, [])
        group.attrs[ATTRIBUTE] = [*theirs, *new]

    def commit(metadata: dict[str, Any]) -> str:
        return session.commit("run", metadata)

    output = RunOutput(
        rows=rows_of(new, status),
        state=",".join(known if broken else [*known, *new]).encode(),
        commit=commit if new and not broken else None,
        rebase=lambda: session.rebase(BasicConflictSolver()),
    )
    before_publish()
    return publish(target, basis, plan, output, after_step=after_step)
