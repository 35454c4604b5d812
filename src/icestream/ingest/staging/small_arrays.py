"""References of small arrays are edits of the session: they may share a manifest with others."""

from collections.abc import Sequence

import numpy as np

from icestream.ingest.staging.array_routes import ArrayRoute, by_source
from icestream.ingest.staging.documents import write_array_document
from icestream.ingest.staging.workbenches import Workbench
from icestream.model.chunk_tables import ChunkTable, concat, overlay
from icestream.packing.assignment import WHOLE_ARRAY
from icestream.repository.working_copy import WorkingCopy


def edit_small_arrays(routes: Sequence[ArrayRoute], bench: Workbench) -> None:
    """Edit the references of arrays, those of their files collected first."""
    destinations = by_source(
        (route, route.to({WHOLE_ARRAY: number})) for number, route in enumerate(routes)
    )
    tables = [[*bench.known.get(route.path, ())] for route in routes]
    for number, table in bench.engine.collect(bench.scans.references, destinations):
        tables[number].append(table)
    for route, found in zip(routes, tables, strict=True):
        _edit(bench.copy, route, concat(found) if found else None)


def _edit(copy: WorkingCopy, route: ArrayRoute, added: ChunkTable | None) -> None:
    index_map, there = route.update.index_map, None
    if route.before is not None and index_map is not None:
        # before the document changes: a smaller array forgets chunks that only move
        there = copy.table(route.before)
    write_array_document(copy, route.path, route.update)
    if there is not None and index_map is not None:
        stays = index_map.apply(there)
        added = stays if added is None else overlay(stays, added)
        _delete_others(copy, route.path, there, added)
    if added is not None and len(added):
        copy.put_table(route.path, added)


def _delete_others(copy: WorkingCopy, path: str, there: ChunkTable, wanted: ChunkTable) -> None:
    """Delete the references of an array that it shall not have; those outside are gone already."""
    stale = there.index[wanted.find_many(there.index) < 0]
    grid = np.array(copy.get_array(path).num_chunks, np.int64)
    stale = stale[(stale < grid).all(axis=1)]
    if len(stale):
        copy.delete_chunks(path, stale)
