"""The lineage of a workspace, read from its chains and from the repositories that they name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icestream.errors import IcestreamError, NotFoundError
from icestream.ingest.array_derivation.changes import is_unchanged
from icestream.ingest.array_derivation.ledger_side import (
    derivation_of,
    is_derived_array,
    last_version,
    run_name,
)
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.lineage.graphs import Edge, Freshness, LineageGraph, Node, NodeKind
from icestream.ingest.publishing.ledger_side import CELLS_SUFFIX, INGEST_ENGINE, NEW_CELLS_SUFFIX
from icestream.ingest.publishing.run_snapshots import METADATA_KEY
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import SetPollingSource
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.sources import FetchStepFilesGlob, FetchStepUrl
from icestream.ledger.chain.rules.transactions import progress
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace
from icestream.repository.repository import Repository
from icestream.storage.urls import StorageUrl

_INVENTORY = ".inventory"


@dataclass(frozen=True, slots=True)
class Place:
    """A branch of a repository, as a declaration names it."""

    repository: str
    branch: str = "main"

    @property
    def node_id(self) -> str:
        """The same for all declarations that mean it."""
        return f"repository:{self.repository.rstrip('/')}@{self.branch}"

    @property
    def name(self) -> str:
        """For people."""
        address = self.repository.rstrip("/")
        return address if self.branch == "main" else f"{address}@{self.branch}"

    def open(self) -> Repository:
        """Open the repository."""
        return Repository.open(StorageUrl(address=self.repository).storage())


@dataclass(frozen=True, slots=True)
class Flow:
    """What a dataset has to do with things that are no datasets."""

    kind: NodeKind
    sources: tuple[str, ...] = ()
    """URLs that its inputs, or itself, are made from."""
    reads: tuple[Place, ...] = ()
    """Repositories that its inputs, or itself, are made from."""
    writes: tuple[Place, ...] = ()
    """Repositories that it fills."""


def read_lineage(workspace: Workspace, *, opens_repositories: bool = True) -> LineageGraph:
    """Return the lineage of all datasets of a workspace.

    Args:
        workspace: Its chains are opened, and nothing else is read of them.
        opens_repositories: Whether to look how far the repositories are that transforms fill.
    """
    names = {str(entry.dataset_id): str(entry.alias) for entry in workspace.datasets()}
    datasets = {dataset_id: workspace.open(dataset_id) for dataset_id in names}
    draft = _Draft(datasets, opens_repositories)
    for dataset_id, alias in names.items():
        draft.add_dataset(dataset_id, alias)
    return draft.graph()


def find_node(graph: LineageGraph, name: str) -> str:
    """Return the id of the node that a name means: of a dataset, an archive, or a repository.

    Raises:
        NotFoundError: There is none.
    """
    wanted = name.lower().rstrip("/")
    for candidate in (wanted, f"{wanted.replace('_', '-')}.ingest"):
        for node in graph.nodes:
            if candidate in {node.name.lower().rstrip("/"), node.id.lower()}:
                return node.id
    known = ", ".join(sorted(node.name for node in graph.nodes)) or "nothing"
    raise NotFoundError(f"the lineage has no {name}; there is {known}")


def flow_of(dataset: Dataset) -> Flow:
    """Return what a dataset has to do with sources and repositories."""
    transform = dataset.state.transform
    if transform is None:
        return Flow(NodeKind.ROOT, tuple(_polled(dataset.state.polling_source)))
    engine, queries = transform.transform.engine, transform.transform.queries
    if engine == INGEST_ENGINE and queries:
        archive = decode_archive(queries[-1].query.encode(), name=dataset.alias or "archive")
        target = Place(archive.target.repository, archive.target.branch)
        return Flow(NodeKind.INGEST, sources=archive.sources, writes=(target,))
    if is_derived_array(dataset):
        derivation = derivation_of(dataset)
        return Flow(
            NodeKind.ARRAY,
            reads=(Place(derivation.input.repository, derivation.input.branch),),
            writes=(Place(derivation.output.repository, derivation.output.branch),),
        )
    return Flow(NodeKind.DERIVATIVE)


def _cells_read(dataset: Dataset, datasets: Mapping[str, Dataset]) -> Iterator[Place]:
    """Yield the repositories whose cells queries read beside the files of an archive."""
    transform = dataset.state.transform
    if transform is None:
        return
    texts = [step.query for step in transform.transform.queries or ()]
    for given in transform.inputs:
        alias = given.alias or given.dataset_ref
        views = (alias + CELLS_SUFFIX, alias + NEW_CELLS_SUFFIX)
        found = datasets.get(given.dataset_ref)
        if found is None or not any(view in text for view in views for text in texts):
            continue
        flow = flow_of(found)
        if flow.kind is NodeKind.INGEST:
            yield from flow.writes


def _polled(source: SetPollingSource | None) -> Iterator[str]:
    match None if source is None else source.fetch:
        case FetchStepUrl(url=url):
            yield url
        case FetchStepFilesGlob(path=path):
            yield path
        case _:
            return


@dataclass
class _Draft:
    """A graph that is being put together."""

    datasets: Mapping[str, Dataset]
    """By id."""
    opens_repositories: bool
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def graph(self) -> LineageGraph:
        """Return what was put together, in the order in which data flow."""
        loose = LineageGraph(list(self.nodes.values()), self.edges)
        layers = loose.layers
        ordered = sorted(loose.nodes, key=lambda node: (layers[node.id], node.name))
        return LineageGraph(ordered, self.edges)

    def add_dataset(self, dataset_id: str, alias: str) -> None:
        """Add a dataset, its inputs, and the sources and repositories around them."""
        dataset = self.datasets[dataset_id]
        flow = flow_of(dataset)
        inputs = list(_inputs(dataset, self.datasets))
        is_inventory = flow.kind is NodeKind.ROOT and alias.endswith(_INVENTORY)
        self.nodes[dataset_id] = Node(
            id=dataset_id,
            kind=NodeKind.INVENTORY if is_inventory else flow.kind,
            name=alias,
            facts=_dataset_facts(dataset),
            **_dataset_freshness(dataset, inputs),
        )
        for given in inputs:
            if given.node_id not in self.datasets:
                self._add(given.node_id, NodeKind.MISSING, given.node_id)
            self._connect(given.node_id, dataset_id, given.facts)
        for place in _cells_read(dataset, self.datasets):
            self._add_repository(place)
            self._connect(place.node_id, dataset_id)
        entrances = [given.node_id for given in inputs] or [dataset_id]
        self._add_surroundings(dataset_id, flow, entrances)

    def _add_surroundings(self, dataset_id: str, flow: Flow, entrances: Sequence[str]) -> None:
        for url in flow.sources:
            self._add(f"source:{url}", NodeKind.SOURCE, url)
            for entrance in entrances:
                self._connect(f"source:{url}", entrance)
        for place in flow.reads:
            self._add_repository(place)
            self._compare_versions(place, dataset_id, entrances)
            for entrance in entrances:
                self._connect(place.node_id, entrance)
        for place in flow.writes:
            self._add_repository(place, self.datasets[dataset_id])
            self._connect(dataset_id, place.node_id)

    def _compare_versions(self, place: Place, dataset_id: str, versions: Sequence[str]) -> None:
        """Let a derived array be behind if its input has changed since the version it is of."""
        node = self.nodes[dataset_id]
        is_open = self.nodes[place.node_id].facts.get("snapshot") is not None
        recorded = self.datasets.get(versions[0])
        if not is_open or recorded is None or node.freshness is not Freshness.UP_TO_DATE:
            return
        last = last_version(recorded)
        newer = list(_versions_since(place, last, node.name))
        if newer and not _is_unchanged(place, last, self.datasets[dataset_id]):
            reason = f"{len(newer)} versions of {place.name} are not looked at yet"
            self.nodes[dataset_id] = replace(node, freshness=Freshness.BEHIND, reason=reason)

    def _add(self, node_id: str, kind: NodeKind, name: str) -> None:
        self.nodes.setdefault(node_id, Node(id=node_id, kind=kind, name=name))

    def _connect(self, source: str, target: str, facts: Mapping[str, Any] | None = None) -> None:
        self.edges.append(Edge(source=source, target=target, facts=facts or {}))

    def _add_repository(self, place: Place, writer: Dataset | None = None) -> None:
        known = self.nodes.get(place.node_id)
        node = known or self._repository_node(place)
        if writer is not None and node.freshness is not Freshness.UNREACHABLE:
            node = _with_writer(node, place, writer) if self.opens_repositories else node
        self.nodes[place.node_id] = node

    def _repository_node(self, place: Place) -> Node:
        node = Node(id=place.node_id, kind=NodeKind.REPOSITORY, name=place.name)
        if not self.opens_repositories:
            return node
        try:
            tip = next(iter(place.open().ancestry(branch=place.branch)))
        except IcestreamError as error:
            return replace(node, freshness=Freshness.UNREACHABLE, reason=error.message)
        facts = {"branch": place.branch, "snapshot": tip.id, "updated": tip.written_at.isoformat()}
        return replace(node, facts=facts)


def _with_writer(node: Node, place: Place, writer: Dataset) -> Node:
    """Return a repository that says how it stands to a dataset that fills it."""
    found = _newest_noted(place, writer)
    if found is None:
        return node if node.freshness else replace(node, freshness=Freshness.EMPTY)
    run, block = found
    facts = {**node.facts, "run": run, "committed_block": str(block.block_hash)}
    if block.sequence_number > writer.state.head.sequence_number:
        reason = f"run {run} is committed, and not yet recorded by {writer.alias}; run it again"
        return replace(node, facts=facts, freshness=Freshness.UNFINISHED, reason=reason)
    if node.freshness in {None, Freshness.EMPTY}:
        return replace(node, facts=facts, freshness=Freshness.UP_TO_DATE)
    return replace(node, facts=facts)


def _versions_since(place: Place, snapshot_id: str | None, array: str) -> Iterator[str]:
    """Yield the versions of a branch after one of them that were not made by a derived array."""
    for info in place.open().ancestry(branch=place.branch):
        if info.id == snapshot_id:
            return
        noted = info.metadata.get(METADATA_KEY)
        if not isinstance(noted, Mapping) or noted.get("archive") != run_name(array):
            yield info.id


def _is_unchanged(place: Place, snapshot_id: str | None, dataset: Dataset) -> bool:
    """Tell whether the newest version has the same values for a derived array as another one."""
    if snapshot_id is None:
        return False
    repo = place.open()
    try:
        before = repo.readonly_session(snapshot_id=snapshot_id)
        after = repo.readonly_session(place.branch)
        return all(is_unchanged(before, after, path) for path in _read_paths(dataset))
    except NotFoundError:
        return False


def _read_paths(dataset: Dataset) -> list[str]:
    """Return the arrays that decide about the values of a derived array."""
    derivation = derivation_of(dataset)
    coordinate = f"{derivation.input.group.rstrip('/')}/{derivation.along}"
    return [derivation.input.array, *([] if derivation.group is None else [coordinate])]


def _newest_noted(place: Place, writer: Dataset) -> tuple[int | None, StoredBlock] | None:
    """Return the run and the block of the newest snapshot that a dataset made."""
    for info in place.open().ancestry(branch=place.branch):
        noted = info.metadata.get(METADATA_KEY)
        text = noted.get("block") if isinstance(noted, Mapping) else None
        if not isinstance(noted, Mapping) or not isinstance(text, str):
            continue
        try:
            block = writer.chain.store.load(Multihash.parse(text))
        except IcestreamError:
            continue  # of another dataset
        return noted.get("run"), block
    return None


@dataclass(frozen=True, slots=True)
class _Input:
    """How far a dataset has read another."""

    node_id: str
    name: str
    facts: Mapping[str, Any]

    @property
    def records_left(self) -> int:
        """How many records are not read yet."""
        return int(self.facts.get("records_left") or 0)


def _inputs(dataset: Dataset, datasets: Mapping[str, Dataset]) -> Iterator[_Input]:
    transform, consumed = dataset.state.transform, progress(dataset.state)
    for declared in () if transform is None else transform.inputs:
        entry = consumed.get(DatasetId.parse(declared.dataset_ref))
        found = datasets.get(declared.dataset_ref)
        offset = None if entry is None else entry.last_offset
        block = None if entry is None else entry.last_block_hash
        facts = {
            "consumed_offset": offset,
            "consumed_block": None if block is None else str(block),
            "available_offset": None if found is None else found.last_offset,
            "records_left": None if found is None else _count(found) - _upto(offset),
        }
        name = declared.dataset_ref if found is None else found.alias or declared.dataset_ref
        yield _Input(declared.dataset_ref, name, facts)


def _count(dataset: Dataset) -> int:
    return _upto(dataset.last_offset)


def _upto(offset: int | None) -> int:
    return 0 if offset is None else offset + 1


def _dataset_freshness(dataset: Dataset, inputs: Iterable[_Input]) -> dict[str, Any]:
    behind = [given for given in inputs if given.records_left > 0]
    if behind:
        told = ", ".join(f"{given.records_left} records of {given.name}" for given in behind)
        return {"freshness": Freshness.BEHIND, "reason": f"{told} are not read yet"}
    if dataset.state.data_event is None:
        return {"freshness": Freshness.EMPTY}
    return {"freshness": Freshness.UP_TO_DATE if dataset.state.transform else None}


def _dataset_facts(dataset: Dataset) -> dict[str, Any]:
    state, head = dataset.state, dataset.state.head
    transform = state.transform
    return {
        "dataset_id": str(dataset.dataset_id),
        "engine": None if transform is None else transform.transform.engine,
        "block": str(dataset.head),
        "sequence_number": head.sequence_number,
        "last_offset": state.last_offset,
        "watermark": None if state.watermark is None else str(state.watermark),
        "updated": str(head.block.system_time),
    }
