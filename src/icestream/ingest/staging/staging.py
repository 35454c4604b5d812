"""All that updates ask for, except the commit."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from icestream.ingest.staging.array_routes import ArrayRoute, is_large, route_of
from icestream.ingest.staging.copying import CopyJob, copy_file
from icestream.ingest.staging.documents import (
    check_arrays,
    delete_nodes,
    write_copied,
    write_groups,
)
from icestream.ingest.staging.large_arrays import write_large_arrays
from icestream.ingest.staging.small_arrays import edit_small_arrays
from icestream.ingest.staging.workbenches import StagedRun, Workbench
from icestream.ingest.updates.planning import Updates
from icestream.model.chunk_tables import ChunkTable


def stage_updates(updates: Updates, bench: Workbench) -> StagedRun:
    """Write what updates ask for: edits of the session, and manifests that no one refers to yet.

    Raises:
        InvalidInputError: There is an array of somebody else where one is to be made.
        ConflictError: Somebody else removed an array of earlier runs.
        SourceError: A file that has to be copied cannot be.
    """
    check_arrays(bench.copy, updates)
    delete_nodes(bench.copy, updates)
    write_groups(bench.copy, updates)
    write_copied(bench.copy, updates)
    routes = [route_of(path, update, bench) for path, update in updates.arrays.items()]
    bench = replace(bench, known=_with_copies(routes, bench))
    large = [route for route in routes if is_large(route, bench)]
    small = [route for route in routes if route not in large]
    edit_small_arrays(small, bench)
    return StagedRun(
        session=bench.session,
        cells=write_large_arrays(large, bench),
        num_references=sum(route.num_added for route in routes),
    )


def _with_copies(routes: Sequence[ArrayRoute], bench: Workbench) -> dict[str, list[ChunkTable]]:
    """Return known references, with those to copies of what files of another form hold."""
    owners, jobs = [], []
    for route in routes:
        update = route.update
        for row, start in zip(update.differing.tolist(), update.differing_start, strict=True):
            metadata = update.array.metadata
            jobs.append(CopyJob(bench.urls[row], update.path, metadata, tuple(start.tolist())))
            owners.append(route.path)
    context = bench.copy.context
    copy_one = partial(
        copy_file,
        scan=bench.scans.job,
        assets=context.assets,
        inline_threshold=context.inline_threshold_bytes,
    )
    known = defaultdict(list, {path: [*tables] for path, tables in bench.known.items()})
    for path, table in zip(owners, bench.engine.map(copy_one, jobs), strict=True):
        known[path].append(table)
    return known
