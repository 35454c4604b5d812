"""A handle on the chain of one dataset: read it, and append to it."""

from collections.abc import Iterator, Sequence
from typing import Self

from icestream.errors import AlreadyExistsError, ConflictError
from icestream.ledger.blocks.events import MetadataEvent
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.appending import judged, linked, publish
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.heads import Head, find_head, get_head, lost_race
from icestream.ledger.chain.loading import load_state
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.summaries import save_summary
from icestream.storage.protocol import Storage


class MetadataChain:
    """The chain of one dataset as it was when it was opened, refreshed or appended to.

    Many handles, in many processes, may append to one chain: the head is moved by
    compare-and-swap, so of two that start from the same block one wins. A handle itself is for one
    thread.
    """

    def __init__(self, storage: Storage, head: Head, state: ChainState) -> None:
        self.store = BlockStore(storage)
        self._head = head
        self._state = state

    def __repr__(self) -> str:
        return f"MetadataChain({self.storage!r}, head={str(self.head)!r})"

    @classmethod
    def open(cls, storage: Storage) -> Self:
        """Return a handle on the dataset below the root of a storage.

        Raises:
            NotFoundError: There is none.
            IntegrityError: A block that is needed is missing or damaged.
        """
        head = get_head(storage)
        return cls(storage, head, load_state(BlockStore(storage), head.block_hash))

    @classmethod
    def create(
        cls,
        storage: Storage,
        events: Sequence[MetadataEvent],
        *,
        system_time: Timestamp | None = None,
    ) -> Self:
        """Create a dataset from its first events, which begin with a seed.

        Raises:
            AlreadyExistsError: There is one.
            ChainRuleError: An event breaks a rule.
        """
        return cls.create_from_blocks(storage, linked(None, events, system_time))

    @classmethod
    def create_from_blocks(cls, storage: Storage, blocks: Sequence[StoredBlock]) -> Self:
        """Create a dataset from blocks that exist already, such as those of another replica.

        Raises:
            AlreadyExistsError: There is one.
            ChainRuleError: A block breaks a rule, or an object it needs is missing.
        """
        if head := find_head(storage):
            raise _already_exists(storage, head.block_hash)
        state = judged(None, blocks)
        try:
            head = publish(storage, None, blocks, state.head.block_hash)
        except ConflictError as error:
            raise _already_exists(storage, error.actual_parent) from error
        save_summary(storage, state)
        return cls(storage, head, state)

    @property
    def storage(self) -> Storage:
        """Where the dataset lies."""
        return self.store.storage

    @property
    def head(self) -> Multihash:
        """The hash of the last block."""
        return self._head.block_hash

    @property
    def state(self) -> ChainState:
        """What the chain says at its head."""
        return self._state

    def refresh(self) -> None:
        """Take notice of what others appended."""
        head = get_head(self.storage)
        if head.block_hash != self.head:
            self._state = load_state(self.store, head.block_hash, self._state)
        self._head = head

    def blocks(self, *, since: Multihash | None = None) -> Iterator[StoredBlock]:
        """Yield the blocks, newest first, down to but without `since`."""
        for block in self.store.walk(self._state.head):
            if block.block_hash == since:
                return
            yield block

    def append(self, *events: MetadataEvent, system_time: Timestamp | None = None) -> Multihash:
        """Append events, each in a block of its own, and move the head once.

        Args:
            *events: In their order.
            system_time: Of all the blocks; the time of the clock, if None.

        Returns:
            The hash of the last block.

        Raises:
            ChainRuleError: An event breaks a rule, or an object it needs is missing.
            ConflictError: Somebody else appended first.
        """
        return self.append_blocks(linked(self._state, events, system_time))

    def append_blocks(self, blocks: Sequence[StoredBlock]) -> Multihash:
        """Append blocks that exist already, byte for byte, and move the head once.

        Raises:
            ChainRuleError: A block breaks a rule, or an object it needs is missing.
            ConflictError: Somebody else appended first, or the blocks follow another block.
        """
        self._require_head_before(blocks)
        return self._move(judged(self._state, blocks), blocks)

    def rewrite(self, base: ChainState, blocks: Sequence[StoredBlock]) -> Multihash:
        """Let the chain go on from an earlier state with other blocks, or with none.

        What came after that state is no longer part of the dataset, and datasets that consumed it
        find that this one diverged.

        Raises:
            ChainRuleError: A block breaks a rule, or an object it needs is missing.
            ConflictError: Somebody else appended meanwhile.
        """
        return self._move(judged(base, blocks) if blocks else base, blocks)

    def _move(self, state: ChainState, blocks: Sequence[StoredBlock]) -> Multihash:
        """Make a judged state the one of the chain."""
        self._head = publish(self.storage, self._head, blocks, state.head.block_hash)
        self._state = state
        save_summary(self.storage, state)
        return self.head

    def _require_head_before(self, blocks: Sequence[StoredBlock]) -> None:
        """Tell blocks that come late from those that belong to no chain here."""
        previous = blocks[0].block.prev_block_hash if blocks else None
        if previous not in {None, self.head} and self.store.has(previous):
            raise lost_race(previous, self._head)


def _already_exists(storage: Storage, head: object) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a dataset in {storage!r} already, at block {head}: open it instead"
    )
