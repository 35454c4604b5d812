"""Verifies a dataset down to the records of its slices."""

from collections.abc import Mapping

from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.verification import (
    VerificationOptions,
    VerificationReport,
    verify_chain,
)
from icestream.ledger.slice_files import check_slice_content
from icestream.storage.protocol import Storage

THREADS = 8


def verify_dataset(
    storage: Storage,
    *,
    checks_content: bool = True,
    since: Multihash | None = None,
    inputs: Mapping[DatasetId, BlockStore] | None = None,
    threads: int = THREADS,
) -> VerificationReport:
    """Verify the dataset at the root of a storage, also one that is too damaged to be opened.

    Args:
        storage: Where the dataset lies.
        checks_content: Whether to look into slices: columns, offsets, logical hashes. If not,
            only their sizes and physical hashes are compared.
        since: Files that are named up to this block are taken as verified.
        inputs: Blocks that show whether transactions tell the truth about their inputs.
        threads: How many files are read at once.

    Raises:
        NotFoundError: There is no dataset.
        InvalidInputError: `since` is not on the chain.
    """
    options = VerificationOptions(
        check_slice=check_slice_content if checks_content else None,
        since=since,
        inputs=inputs or {},
        threads=threads,
    )
    return verify_chain(storage, options)
