"""What a run leaves in the checkpoint of its block: its number, and the state of the archive.

A line of JSON comes first, so that recovery needs to know nothing of archives; the state follows as
it was given. That the block after a run names the last run with a commit is what tells a branch
that was moved back from runs that had nothing to commit.
"""

import json
from dataclasses import dataclass

from icestream.errors import ErrorKind, FormatError
from icestream.ledger.block_names import BlockName
from icestream.ledger.blocks.events import ExecuteTransform, MetadataEvent
from icestream.ledger.chain.hashed_objects import load_object
from icestream.ledger.chain.layout import checkpoint_key
from icestream.ledger.dataset import Dataset

_FORMAT = "icestream-run"
_VERSION = 1
_LINE = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCheckpoint:
    """The checkpoint of one run."""

    number: int
    """Runs that published something count from 1."""
    last_commit: int | None
    """The number of the last run up to this one that committed to the repository."""
    state: bytes
    """Of the archive; see `icestream.ingest.archive_states`."""

    @property
    def has_commit(self) -> bool:
        """Whether the run itself committed to the repository."""
        return self.last_commit == self.number


def encode_checkpoint(checkpoint: RunCheckpoint) -> bytes:
    """Return a checkpoint as bytes."""
    head = {
        _FORMAT: _VERSION,
        "number": checkpoint.number,
        "last-commit": checkpoint.last_commit,
    }
    return json.dumps(head).encode() + _LINE + checkpoint.state


def decode_checkpoint(data: bytes, *, name: str = "the checkpoint") -> RunCheckpoint:
    """Return the checkpoint that bytes encode.

    Raises:
        FormatError: They encode none, or one of a newer version.
    """
    line, _, state = data.partition(_LINE)
    try:
        head = json.loads(line)
        version, number, last_commit = head[_FORMAT], head["number"], head["last-commit"]
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"{name} is not of a run of icestream: {error}", kind=ErrorKind.DESERIALIZATION
        ) from error
    if version > _VERSION:
        raise FormatError(
            f"{name} has version {version}, and this icestream knows versions up to {_VERSION};"
            " install a newer one",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    return RunCheckpoint(number=number, last_commit=last_commit, state=state)


def last_checkpoint(dataset: Dataset) -> RunCheckpoint | None:
    """Return the checkpoint of the last run that an ingest dataset knows; None before the first.

    Raises:
        IntegrityError: It is missing.
    """
    return _checkpoint_of(dataset, dataset.state.data_event)


def load_checkpoint(dataset: Dataset, block: BlockName) -> RunCheckpoint | None:
    """Return the checkpoint of the run of a block; None if the block is not one of a run.

    Raises:
        NotFoundError: The block is not on the chain.
        IntegrityError: The checkpoint is missing.
    """
    return _checkpoint_of(dataset, dataset.find_block(block).event)


def checkpoint_of(dataset: Dataset, event: ExecuteTransform) -> RunCheckpoint | None:
    """Return the checkpoint that the event of a run names."""
    return _checkpoint_of(dataset, event)


def _checkpoint_of(dataset: Dataset, event: MetadataEvent | None) -> RunCheckpoint | None:
    if not isinstance(event, ExecuteTransform) or event.new_checkpoint is None:
        return None
    key = checkpoint_key(event.new_checkpoint.physical_hash)
    return decode_checkpoint(load_object(dataset.storage, key), name=key)
