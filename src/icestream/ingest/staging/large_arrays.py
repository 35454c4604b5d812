"""References of large arrays go from executor to manifest, cell by cell."""

from collections.abc import Sequence

from icestream.ingest.engines.protocol import WriteJob
from icestream.ingest.engines.routing import Destination, RoutedBlob, cut_for
from icestream.ingest.staging.array_routes import ArrayRoute, by_source
from icestream.ingest.staging.documents import revised_document
from icestream.ingest.staging.workbenches import Workbench
from icestream.repository.staged.cells import CellPlan, CellTask, WrittenCell
from icestream.repository.staged.commits import put_staged_array
from icestream.repository.staged.planning import plan_cells


def write_large_arrays(
    routes: Sequence[ArrayRoute], bench: Workbench
) -> dict[str, tuple[CellPlan, list[WrittenCell]]]:
    """Let the engine write the manifests of arrays; return them by path."""
    plans = [_planned(route, bench) for route in routes]
    tasks: list[CellTask] = []
    destinations: list[Destination] = []
    for route, plan in zip(routes, plans, strict=True):
        numbers = {task.cell: len(tasks) + i for i, task in enumerate(plan.tasks)}
        destinations.append(route.to(numbers, plan.cell_sizes))
        tasks += plan.tasks
    context = bench.copy.context
    job = WriteJob(
        assets=context.assets,
        spec=context.timeline.spec,
        tasks=tuple(tasks),
        destinations=by_source(zip(routes, destinations, strict=True)),
    )
    bench.progress.stage("write", len(tasks))
    written: dict[str, list[WrittenCell]] = {plan.path: [] for plan in plans}
    extra = _known_blobs(routes, destinations, bench)
    for cell in bench.engine.write_cells(bench.scans.references, job, extra, bench.progress):
        written[cell.path].append(cell)
    return {plan.path: (plan, written[plan.path]) for plan in plans}


def _planned(route: ArrayRoute, bench: Workbench) -> CellPlan:
    document = revised_document(bench.copy.nodes.find(route.path), route.update)
    before, after = put_staged_array(bench.session, route.path, document)
    return plan_cells(
        None if route.update.is_new else before,
        after,
        bench.copy.context.packing,
        index_map=route.update.index_map,
        added=route.update.added_boxes,
    )


def _known_blobs(
    routes: Sequence[ArrayRoute], destinations: Sequence[Destination], bench: Workbench
) -> list[RoutedBlob]:
    """Return references that no scan brings, for the tasks that write them."""
    return [
        blob
        for route, destination in zip(routes, destinations, strict=True)
        for table in bench.known.get(route.path, ())
        for blob in cut_for(table, destination)
    ]
