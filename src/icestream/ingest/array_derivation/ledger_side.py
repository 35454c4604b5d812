"""The ledger of a derived array: the versions of its input, and the dataset that follows them.

The dataset of the array is a derivative of `<name>.versions`, a root dataset with a record for each
version of the input that was used. Its transform has the engine `icestream-array` and the
declaration as its query; its records are one per output chunk that was computed.
"""

from datetime import datetime

import pyarrow as pa

from icestream.errors import AlreadyExistsError, ErrorKind, InvalidInputError
from icestream.ingest.array_derivation.declarations import (
    ArrayDerivation,
    decode_derivation,
    encode_derivation,
)
from icestream.ingest.publishing.ledger_side import ArchiveLedger
from icestream.ledger.blocks.events import DatasetKind, SetTransform
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace
from icestream.repository.history import SnapshotInfo

ARRAY_ENGINE = "icestream-array"
"""Datasets of this engine are pulled and replayed chunk by chunk, not by a query."""

_TIME = pa.timestamp("ms", "UTC")
VERSION_SCHEMA = pa.schema(
    [
        pa.field("event_time", _TIME),
        pa.field("snapshot_id", pa.string()),
        pa.field("message", pa.string()),
    ]
)
CHUNK_SCHEMA = pa.schema(
    [
        pa.field("event_time", _TIME),
        pa.field("chunk", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("input_snapshot", pa.string()),
    ]
)
"""The chunk by its index, with slashes between; the digest is of its values."""


def create_derived_array(workspace: Workspace, derivation: ArrayDerivation) -> Dataset:
    """Create the datasets of a derived array, which is computed when it is pulled.

    Raises:
        AlreadyExistsError: The name is taken.
        InvalidInputError: The declaration has faults.
    """
    declared = encode_derivation(derivation).decode()
    versions = _open_or_create(workspace, derivation.versions_name)
    transform = SetTransform(
        inputs=(TransformInput(dataset_ref=str(versions.dataset_id), alias="versions"),),
        transform=TransformSql(engine=ARRAY_ENGINE, queries=(SqlQueryStep(query=declared),)),
    )
    return workspace.create(
        DatasetSnapshot(
            name=DatasetAlias.parse(derivation.name),
            kind=DatasetKind.DERIVATIVE,
            metadata=(transform,),
        )
    )


def is_derived_array(dataset: Dataset) -> bool:
    """Tell whether a dataset records a derived array."""
    transform = dataset.state.transform
    return transform is not None and transform.transform.engine == ARRAY_ENGINE


def derivation_of(dataset: Dataset) -> ArrayDerivation:
    """Return the declaration that a dataset has recorded.

    Raises:
        InvalidInputError: The dataset is not one of a derived array.
    """
    transform = dataset.state.transform
    queries = None if transform is None else transform.transform.queries
    if not is_derived_array(dataset) or not queries:
        raise InvalidInputError(
            f"the dataset {dataset.alias} is no derived array: its engine is not {ARRAY_ENGINE}",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    return decode_derivation(queries[-1].query.encode(), name=dataset.alias or "derived array")


def array_ledger(workspace: Workspace, dataset: Dataset) -> ArchiveLedger:
    """Return the datasets of a derived array in the form in which runs are published.

    Raises:
        NotFoundError: The versions of its input are not in this workspace.
    """
    [versions] = workspace.inputs_of(dataset)
    return ArchiveLedger(run_name(derivation_of(dataset).name), versions, dataset)


def run_name(name: str) -> str:
    """Return what snapshots call the pulls of a derived array.

    No archive has such a name, so that on one branch their runs are told apart.
    """
    return f"array/{name}"


def record_version(versions: Dataset, info: SnapshotInfo) -> None:
    """Record that a version of the input is used; nothing happens if it is the last one."""
    if last_version(versions) == info.id:
        return
    moment = _milliseconds(info.written_at)
    row = {"event_time": moment, "snapshot_id": info.id, "message": info.message}
    versions.add_data(pa.Table.from_pylist([row], schema=VERSION_SCHEMA))


def last_version(versions: Dataset) -> str | None:
    """Return the snapshot id of the version that was recorded last."""
    if versions.last_offset is None:
        return None
    found: str = versions.current.tail(1)["snapshot_id"][0].as_py()
    return found


def _milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _open_or_create(workspace: Workspace, name: str) -> Dataset:
    try:
        return workspace.create(name)
    except AlreadyExistsError:
        return workspace.open(name)
