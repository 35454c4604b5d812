"""The ledger of an archive: its inventory, and the ingest dataset that follows it.

Both are in one workspace. The ingest dataset is a derivative of the inventory: its transform has
the engine `icestream-ingest`, and the declaration of the archive as its query.
"""

from dataclasses import dataclass, replace

from icestream.errors import AlreadyExistsError, ErrorKind, InvalidInputError, NotFoundError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.documents import decode_archive, encode_archive
from icestream.ingest.inventory import inventory_definition
from icestream.ledger.blocks.events import DatasetKind, SetTransform
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.ledger.chain.planning import TransformPlan, UpToDate, plan_transform
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace

INGEST_ENGINE = "icestream-ingest"
"""Replays of transforms leave datasets of this engine to rescans."""
CELLS_SUFFIX = "_cells"
NEW_CELLS_SUFFIX = "_new_cells"
"""Behind the alias of an ingest dataset it names, in queries, the cells of its repository."""

_BUCKET_PARTS = {"s3": 1, "gs": 1, "gcs": 1, "az": 2, "azure": 2}
"""How many parts of an address name a bucket."""


@dataclass(frozen=True, slots=True)
class ArchiveLedger:
    """The two datasets of an archive."""

    name: str
    """Of the archive."""
    inventory: Dataset
    ingest: Dataset

    def refresh(self) -> None:
        """Take notice of what others appended."""
        self.inventory.refresh()
        self.ingest.refresh()


def ledger_address(archive: Archive) -> str:
    """Return where the workspace of an archive is: as declared, else beside its repository.

    Raises:
        InvalidInputError: The repository takes a whole bucket, so that there is nothing beside it.
    """
    if archive.ledger is not None:
        return archive.ledger
    repository = archive.target.repository.rstrip("/")
    scheme, separator, rest = repository.partition("://")
    if separator and len(rest.split("/")) <= _BUCKET_PARTS.get(scheme, 0):
        raise InvalidInputError(
            f"the repository {repository} takes a whole bucket: say with `ledger` in the"
            f" declaration of {archive.name} where its ledger is to be",
            kind=ErrorKind.INVALID_CONFIG,
        )
    return f"{repository}.ledger"


def open_ledger(workspace: Workspace, archive: Archive) -> ArchiveLedger:
    """Return the ledger of an archive; what is not there is created.

    Raises:
        InvalidInputError: The name of the archive cannot be one of datasets, or belongs to another
            archive there.
    """
    found = find_ledger(workspace, archive)
    if found is not None:
        return found
    inventory_name, ingest_name = dataset_names(archive)
    inventory = _open_or_create(workspace, inventory_definition(inventory_name))
    definition = DatasetSnapshot(
        name=DatasetAlias.parse(ingest_name),
        kind=DatasetKind.DERIVATIVE,
        metadata=(_transform(archive, inventory),),
    )
    _open_or_create(workspace, definition)
    return _require_same(ArchiveLedger(archive.name, inventory, workspace.open(ingest_name)))


def find_ledger(workspace: Workspace, archive: Archive) -> ArchiveLedger | None:
    """Return the ledger of an archive; None if it has none yet.

    Raises:
        InvalidInputError: The datasets there belong to an archive of another name.
    """
    inventory_name, ingest_name = dataset_names(archive)
    try:
        inventory, ingest = workspace.open(inventory_name), workspace.open(ingest_name)
    except NotFoundError:
        return None
    return _require_same(ArchiveLedger(archive.name, inventory, ingest))


def dataset_names(archive: Archive) -> tuple[str, str]:
    """Return the names of the inventory and the ingest dataset; datasets have no underscores."""
    base = archive.name.replace("_", "-")
    return f"{base}.inventory", f"{base}.ingest"


def follow_declaration(ledger: ArchiveLedger, archive: Archive) -> bool:
    """Record the declaration that is in force from here on; tell whether it is another.

    What an earlier run left unfinished must be finished before: its block follows the head.

    Raises:
        ConflictError: Somebody else appended first.
    """
    transform = _transform(archive, ledger.inventory)
    if ledger.ingest.state.transform == transform:
        return False
    ledger.ingest.append(transform)
    return True


def declared_archive(ledger: ArchiveLedger) -> Archive:
    """Return the declaration that the ingest dataset has recorded."""
    return decode_archive(_declaration_in(ledger.ingest).encode(), name=ledger.name)


def plan_run(ledger: ArchiveLedger) -> TransformPlan:
    """Return the next transaction of the ingest dataset, also if the inventory has nothing new.

    Raises:
        InvalidInputError: The inventory has no records yet.
        DivergedInputError: The inventory was compacted or reset.
    """
    inputs = {ledger.inventory.dataset_id: ledger.inventory.chain}
    plan = plan_transform(ledger.ingest.chain, inputs, needs_news=False)
    if isinstance(plan, UpToDate):
        raise InvalidInputError(
            f"the inventory of {ledger.name} is empty ({plan.reason}): record a listing first",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    return plan


def _transform(archive: Archive, inventory: Dataset) -> SetTransform:
    # the ledger may be called otherwise from elsewhere, and moved
    declared = encode_archive(replace(archive, ledger=None)).decode()
    return SetTransform(
        inputs=(TransformInput(dataset_ref=str(inventory.dataset_id), alias="inventory"),),
        transform=TransformSql(engine=INGEST_ENGINE, queries=(SqlQueryStep(query=declared),)),
    )


def _declaration_in(ingest: Dataset) -> str:
    transform = ingest.state.transform
    queries = None if transform is None else transform.transform.queries
    is_ours = transform is not None and transform.transform.engine == INGEST_ENGINE
    if not is_ours or not queries:
        raise InvalidInputError(
            f"the dataset {ingest.alias} is not one of an archive: its engine is not"
            f" {INGEST_ENGINE}; choose another name or another `ledger` for the archive",
            kind=ErrorKind.INVALID_CONFIG,
        )
    return queries[-1].query


def _require_same(ledger: ArchiveLedger) -> ArchiveLedger:
    declared = declared_archive(ledger)
    if declared.name != ledger.name:
        raise InvalidInputError(
            f"the dataset {ledger.ingest.alias} belongs to the archive {declared.name}, not to"
            f" {ledger.name}: choose another name or another `ledger`",
            kind=ErrorKind.INVALID_CONFIG,
        )
    return ledger


def _open_or_create(workspace: Workspace, definition: DatasetSnapshot) -> Dataset:
    try:
        return workspace.create(definition)
    except AlreadyExistsError:
        return workspace.open(definition.name)
