"""Brings datasets up to date, those that others read first."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from icestream.errors import (
    IcestreamError,
    InvalidInputError,
    NotFoundError,
    SessionStateError,
)
from icestream.ingest.publishing.ledger_side import INGEST_ENGINE
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import DatasetKind
from icestream.ledger.chain.planning import UpToDate
from icestream.ledger.data_writing import AddedData
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace
from icestream.spark.transforms.archive_places import ArchivePlaces
from icestream.spark.transforms.runs import Engine
from icestream.spark.transforms.transactions import transform

type Advance = Callable[[Dataset], tuple[AddedData, ...] | UpToDate]
"""Brings one dataset up to date, and tells what was added or why nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What became of one dataset."""

    name: str
    dataset: Dataset
    added: tuple[AddedData, ...] = ()
    reason: str = ""
    """Why nothing was added."""
    error: IcestreamError | None = None

    @property
    def record_count(self) -> int:
        """How many records were added."""
        return sum(each.record_count for each in self.added)

    @property
    def status(self) -> str:
        """What happened, in a word or two."""
        if self.error is not None:
            return "failed"
        return "updated" if self.added else "up to date"


class Pulling:
    """Brings datasets of a workspace up to date."""

    def __init__(
        self,
        workspace: Workspace,
        engine: Engine,
        *,
        poll: Advance | None = None,
        others: Mapping[str, Advance] | None = None,
        places: ArchivePlaces | None = None,
    ) -> None:
        """Prepare to pull; nothing is read yet.

        Args:
            workspace: Where the datasets and their inputs are.
            engine: Runs queries.
            poll: Polls the source of a root dataset; None leaves root datasets as they are.
            others: What brings derivative datasets up to date whose engine runs no queries, by
                the name of the engine.
            places: Of archives whose cells queries read; as of `transform`.
        """
        self._workspace = workspace
        self._engine = engine
        self._poll = poll
        self._places = places
        self._others = {INGEST_ENGINE: _leave_to_archive, **(others or {})}
        self._datasets: dict[DatasetId, Dataset] = {}
        self._failed: dict[DatasetId, str] = {}

    def pull(self, names: Iterable[str], *, recursive: bool = False) -> Iterator[Pulled]:
        """Bring datasets up to date, and yield what became of each as soon as it is known.

        Each derivative dataset gets one transaction over all that its inputs have new. One that
        fails does not keep others from going on, unless they read it.

        Args:
            names: Names or ids.
            recursive: Whether to bring their inputs up to date first, and the inputs of these.

        Raises:
            NotFoundError: There is no dataset of a name.
            InvalidInputError: All of them read each other in a circle, or what does.
        """
        self._datasets.clear()  # others may have appended since
        self._failed.clear()
        wanted = [self._workspace.find(name) for name in names]
        ordered, circling = self._inputs_first(wanted)
        if circling and len(circling) == len(wanted):
            raise next(iter(circling.values()))
        for dataset_id, error in circling.items():
            dataset = self._opened(dataset_id)
            yield Pulled(name=_name(dataset), dataset=dataset, error=error)
        for dataset in ordered:
            if recursive or dataset.dataset_id in wanted:
                yield self._pull(dataset)

    def _pull(self, dataset: Dataset) -> Pulled:
        name = _name(dataset)
        try:
            outcome = self._advance(dataset)
        except IcestreamError as error:
            self._failed[dataset.dataset_id] = name
            return Pulled(name=name, dataset=dataset, error=error)
        if isinstance(outcome, UpToDate):
            return Pulled(name=name, dataset=dataset, reason=outcome.reason)
        return Pulled(name=name, dataset=dataset, added=outcome)

    def _advance(self, dataset: Dataset) -> tuple[AddedData, ...] | UpToDate:
        if dataset.kind is DatasetKind.ROOT:
            if self._poll is None or dataset.state.polling_source is None:
                return UpToDate("it has no source to poll")
            return self._poll(dataset)
        inputs = self._inputs(dataset)
        for given in inputs:
            if failed := self._failed.get(given.dataset_id):
                raise SessionStateError(f"not pulled, because its input {failed} failed")
        declared = dataset.state.transform
        other = None if declared is None else self._others.get(declared.transform.engine)
        if other is not None:
            return other(dataset)
        outcome = transform(dataset, inputs, self._engine, places=self._places)
        return outcome if isinstance(outcome, UpToDate) else (outcome,)

    # -- who reads whom ---------------------------------------------------------------------------

    def _inputs_first(
        self, wanted: Iterable[DatasetId]
    ) -> tuple[list[Dataset], dict[DatasetId, InvalidInputError]]:
        """Return datasets and all that they read, each after those that it reads.

        Those that read in a circle are apart, with what is wrong.
        """
        done: dict[DatasetId, Dataset] = {}
        circling: dict[DatasetId, InvalidInputError] = {}
        for dataset_id in wanted:
            try:
                self._visit(self._opened(dataset_id), done, [])
            except InvalidInputError as error:
                circling[dataset_id] = error
        return list(done.values()), circling

    def _visit(self, dataset: Dataset, done: dict[DatasetId, Dataset], way: list[Dataset]) -> None:
        if dataset in way:
            names = " -> ".join(_name(each) for each in [*way[way.index(dataset) :], dataset])
            raise InvalidInputError(
                f"these datasets read each other in a circle: {names}; update the definition"
                " of one of them, so that it does not read the others"
            )
        if dataset.dataset_id in done:
            return
        for given in self._inputs(dataset):
            self._visit(given, done, [*way, dataset])
        done[dataset.dataset_id] = dataset

    def _inputs(self, dataset: Dataset) -> list[Dataset]:
        """Return the inputs that are in the workspace; planning tells which are missing."""
        declared = dataset.state.transform
        references = () if declared is None else declared.inputs
        found: list[Dataset] = []
        for given in references:
            try:
                found.append(self._opened(self._workspace.find(given.dataset_ref)))
            except NotFoundError:
                continue
        return found

    def _opened(self, dataset_id: DatasetId) -> Dataset:
        if dataset_id not in self._datasets:
            self._datasets[dataset_id] = self._workspace.open(dataset_id)
        return self._datasets[dataset_id]


def _name(dataset: Dataset) -> str:
    return dataset.alias or str(dataset.dataset_id)


def _leave_to_archive(_: Dataset) -> UpToDate:
    return UpToDate("files of archives are brought in by `icestream archive`")
