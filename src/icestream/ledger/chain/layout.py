"""Where the objects of a dataset lie below its root, on every storage alike."""

from collections.abc import Iterator

from icestream.ledger.blocks.events import DataEvent
from icestream.ledger.blocks.hashes import Multihash

BLOCKS = "blocks/"
"""Metadata blocks, named by the hash of their bytes."""
DATA = "data/"
"""Parquet slices and linked objects, named by the hash of their bytes."""
CHECKPOINTS = "checkpoints/"
"""States of engines, named by the hash of their bytes."""
HEAD = "refs/head"
"""The hash of the last block; the one object of a dataset that changes."""
SUMMARY = "info/summary"
"""What the chain says at one block, so that opening needs no walk; rebuilt when it is lost."""
ALIAS = "info/alias"
"""The name that the dataset goes by; a copy, for people."""

HASHED = (BLOCKS, DATA, CHECKPOINTS)
"""The folders whose objects are named by their content."""


def block_key(block_hash: Multihash) -> str:
    """Return the key of a metadata block."""
    return f"{BLOCKS}{block_hash}"


def data_key(physical_hash: Multihash) -> str:
    """Return the key of a slice, or of an object that its records link to."""
    return f"{DATA}{physical_hash}"


def checkpoint_key(physical_hash: Multihash) -> str:
    """Return the key of a checkpoint."""
    return f"{CHECKPOINTS}{physical_hash}"


def object_keys(event: DataEvent) -> Iterator[str]:
    """Yield the keys of the slice and the checkpoint that an event names."""
    if event.new_data is not None:
        yield data_key(event.new_data.physical_hash)
    if event.new_checkpoint is not None:
        yield checkpoint_key(event.new_checkpoint.physical_hash)
