"""One transaction as an engine sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.chain.planning import TransformPlan
from icestream.ledger.data.system_columns import SystemColumns
from icestream.ledger.transactions import TransformOutput
from icestream.spark.transforms.archive_cells import ArchiveCells
from icestream.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRun:
    """What is to be run."""

    plan: TransformPlan
    storages: Mapping[DatasetId, Storage]
    """Where the inputs lie; executors reach them."""
    columns: SystemColumns
    """What the system columns of the output are called."""
    state: bytes | None = None
    """The checkpoint of the transaction before; None before the first."""
    cells: Mapping[str, ArchiveCells] = field(default_factory=dict)
    """Arrays that queries read, by the names of their views."""


class Engine(Protocol):
    """Runs the queries of transactions."""

    def run(self, run: TransformRun) -> TransformOutput:
        """Return what the queries of a transaction make of the new records of its inputs.

        The same run gives the same rows in the same order, on any machine.

        Raises:
            InvalidInputError: A query is wrong or does not fit its data; names the step.
            SessionStateError: The queries are others than those that the state belongs to.
            IntegrityError: A slice of an input is missing or damaged.
        """
