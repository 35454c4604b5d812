"""The lineage that chains and repositories tell of."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest_builders import archive
from tests.publishing_builders import run
from tests.unit.ledger.test_dataset_faults import Killed

from icestream.errors import NotFoundError
from icestream.ingest.declaration.archives import Target
from icestream.ingest.lineage.graphs import Freshness, LineageGraph, Node, NodeKind
from icestream.ingest.lineage.reading import find_node, read_lineage
from icestream.ingest.publishing.ledger_side import open_ledger
from icestream.ingest.publishing.recovery import RunTarget
from icestream.ingest.publishing.steps import RunStep
from icestream.ledger import TransformOutput, read_snapshots
from icestream.ledger.workspace import Workspace
from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage


class Place:
    """An archive of one repository, and a workspace with a dataset made from it."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.archive = replace(archive(), target=Target(repository=str(self.repository)))
        self.workspace = Workspace(local_filesystem_storage(str(folder / "ledger")))

    def target(self) -> RunTarget:
        repo = Repository.open_or_create(local_filesystem_storage(str(self.repository)))
        return RunTarget(open_ledger(self.workspace, self.archive), repo, "main")

    def ingest(self, *urls: str) -> None:
        run(self.target(), *urls)

    def derive(self, query: str = "select * from files") -> None:
        [definition] = read_snapshots(
            f"""
kind: DatasetSnapshot
version: 1
content:
  name: big-files
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: sst.ingest, alias: files}}]
      transform: {{kind: Sql, engine: spark, query: "{query}"}}
""".encode()
        )
        self.workspace.create(definition)

    def pull(self) -> None:
        dataset = self.workspace.open("big-files")
        plan = dataset.plan_transform(self.workspace.inputs_of(dataset))
        rows = self.workspace.open("sst.ingest").to_arrow().select(["event_time", "url"])
        dataset.write_transform(plan, TransformOutput(rows=rows))  # type: ignore[arg-type]  # there is news


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setattr("tests.publishing_builders.archive", lambda: place.archive)
    return place


def named(graph: LineageGraph, name: str) -> Node:
    return graph.by_id[find_node(graph, name)]


def edge_facts(graph: LineageGraph, source: str, target: str) -> dict[str, object]:
    ends = (find_node(graph, source), find_node(graph, target))
    (found,) = [edge for edge in graph.edges if (edge.source, edge.target) == ends]
    return dict(found.facts)


def test_the_way_leads_from_sources_to_derived_datasets(place: Place) -> None:
    place.ingest("a", "b")
    place.derive()
    place.pull()

    graph = read_lineage(place.workspace)

    [source] = place.archive.sources
    assert [(node.name, node.kind) for node in graph.nodes] == [
        (source, NodeKind.SOURCE),
        ("sst.inventory", NodeKind.INVENTORY),
        ("sst.ingest", NodeKind.INGEST),
        (str(place.repository), NodeKind.REPOSITORY),
        ("big-files", NodeKind.DERIVATIVE),
    ]
    assert {
        (graph.by_id[edge.source].name, graph.by_id[edge.target].name) for edge in graph.edges
    } == {
        (source, "sst.inventory"),
        ("sst.inventory", "sst.ingest"),
        ("sst.ingest", str(place.repository)),
        ("sst.ingest", "big-files"),
    }
    assert named(graph, "sst").freshness is Freshness.UP_TO_DATE
    assert named(graph, "big-files").freshness is Freshness.UP_TO_DATE
    repository = named(graph, str(place.repository))
    assert repository.freshness is Freshness.UP_TO_DATE
    tip = Repository.open(local_filesystem_storage(str(place.repository))).lookup_branch("main")
    assert (repository.facts["snapshot"], repository.facts["run"]) == (tip, 1)
    ingest = place.workspace.open("sst.ingest")
    assert named(graph, "sst.ingest").facts["block"] == str(ingest.head)


def test_queries_over_cells_read_the_repository_too(place: Place) -> None:
    place.ingest("a")
    place.derive("select time as event_time, sst from files_cells")

    graph = read_lineage(place.workspace)

    repository = find_node(graph, str(place.repository))
    derived = find_node(graph, "big-files")
    assert repository in graph.sources[derived]
    assert graph.layers[derived] == graph.layers[repository] + 1
    assert graph.by_id[repository].freshness is Freshness.UP_TO_DATE


def test_what_is_behind_says_how_much(place: Place) -> None:
    place.ingest("a")
    place.derive()
    place.pull()
    place.ingest("a", "b", "c")

    graph = read_lineage(place.workspace, opens_repositories=False)

    behind = named(graph, "big-files")
    assert behind.freshness is Freshness.BEHIND
    assert behind.reason == "2 records of sst.ingest are not read yet"
    facts = edge_facts(graph, "sst.ingest", "big-files")
    assert (facts["consumed_offset"], facts["available_offset"]) == (0, 2)
    assert named(graph, str(place.repository)).facts == {}


def test_a_run_that_is_not_finished_is_seen(place: Place) -> None:
    place.ingest("a")

    def die(step: RunStep) -> None:
        if step is RunStep.COMMITTED:
            raise Killed

    with pytest.raises(Killed):
        run(place.target(), "a", "b", after_step=die)
    graph = read_lineage(place.workspace)

    unfinished = named(graph, str(place.repository))
    assert unfinished.freshness is Freshness.UNFINISHED
    assert "run 2 is committed" in (unfinished.reason or "")


def test_a_repository_that_cannot_be_opened_is_told(place: Place) -> None:
    ledger = open_ledger(place.workspace, place.archive)
    graph = read_lineage(place.workspace)

    repository = named(graph, str(place.repository))
    assert repository.freshness is Freshness.UNREACHABLE
    assert "no repository" in (repository.reason or "")
    assert ledger.ingest.alias == "sst.ingest"
    assert named(graph, "sst.ingest").freshness is Freshness.EMPTY


def test_names_that_are_not_there_are_refused(place: Place) -> None:
    place.workspace.create("cities").add_data(pa.table({"city": ["kyiv"]}))
    graph = read_lineage(place.workspace)

    assert named(graph, "CITIES").kind is NodeKind.ROOT
    with pytest.raises(NotFoundError, match="no rivers; there is cities"):
        find_node(graph, "rivers")


def test_an_input_of_another_workspace_is_shown_as_missing(place: Place) -> None:
    place.ingest("a")
    place.derive()
    place.workspace.delete("sst.ingest")
    graph = read_lineage(place.workspace)

    assert NodeKind.MISSING in {node.kind for node in graph.nodes}


def test_a_polled_source_is_a_source(place: Place) -> None:
    [definition] = read_snapshots(
        b"""
kind: DatasetSnapshot
version: 1
content:
  name: rivers
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: Url, url: "https://example.org/rivers.csv"}
      read: {kind: Csv}
      merge: {kind: Append}
"""
    )
    place.workspace.create(definition)

    assert [node.name for node in read_lineage(place.workspace).nodes] == [
        "https://example.org/rivers.csv",
        "rivers",
    ]
