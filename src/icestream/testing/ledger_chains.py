"""Long chains for tests and benchmarks, made much faster than by appending.

Blocks of one kind differ in a few fields: their bytes are made once and stamped with the values of
each. They comply with the rules by construction; `verify_chain` is how to make sure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.encoding import block_hash, encode_block
from icestream.ledger.blocks.events import MetadataBlock, MetadataEvent
from icestream.ledger.blocks.hashes import PHYSICAL_CODE, Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.appending import linked
from icestream.ledger.chain.layout import HEAD, block_key
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.summaries import save_summary
from icestream.storage.protocol import Storage

_PREVIOUS = "previous block"
_NUMBER = "sequence number"
_NUMBER_BYTES = 8


def placeholder_hash(name: str) -> Multihash:
    """Return a hash to be replaced in every block that is stamped."""
    return Multihash(PHYSICAL_CODE, name.encode().ljust(32, b"?"))


def placeholder_number(name: str) -> int:
    """Return an offset to be replaced in every block that is stamped."""
    return int.from_bytes(name.encode().ljust(_NUMBER_BYTES, b"?")[:_NUMBER_BYTES], "little")


@dataclass(frozen=True, slots=True)
class BlockTemplate:
    """The bytes of a block, and where in them the values are that change."""

    data: bytes
    places: Mapping[str, int]

    @classmethod
    def of(cls, event: MetadataEvent, system_time: Timestamp, *names: str) -> "BlockTemplate":
        """Return the template of an event.

        Args:
            event: With a placeholder for each of `names`.
            system_time: Of all the blocks.
            *names: Of placeholders; those of the link to the previous block come by themselves.

        Raises:
            InvalidInputError: A placeholder is not in the event exactly once.
        """
        data = encode_block(
            MetadataBlock(
                system_time=system_time,
                prev_block_hash=placeholder_hash(_PREVIOUS),
                sequence_number=placeholder_number(_NUMBER),
                event=event,
            )
        )
        return cls(data, dict(_find_places(data, (_PREVIOUS, _NUMBER, *names))))

    def stamp(self, values: Mapping[str, bytes]) -> bytes:
        """Return the bytes of a block with these values."""
        stamped = bytearray(self.data)
        for name, value in values.items():
            place = self.places[name]
            stamped[place : place + len(value)] = value
        return bytes(stamped)


@dataclass(slots=True)
class LongChain:
    """A chain in the making: nothing of it is visible before `finish`."""

    storage: Storage
    state: ChainState
    """What the chain says, up to the last block that was added or stamped last."""
    last: bytes = b""
    """The last block, if it was stamped."""
    hashes: list[Multihash] = field(default_factory=list)
    """Of all blocks, oldest first."""

    @classmethod
    def start(cls, storage: Storage, *events: MetadataEvent, system_time: Timestamp) -> "LongChain":
        """Begin with events, the first of which is a seed."""
        blocks = linked(None, events, system_time)
        chain = cls(storage, ChainState.fold(blocks))
        for block in blocks:
            chain._save(block.block_hash, block.data)
        return chain

    @property
    def dataset_id(self) -> DatasetId:
        """Who the dataset is."""
        return self.state.dataset_id

    def add(self, event: MetadataEvent, system_time: Timestamp) -> Multihash:
        """Append an event of any kind."""
        self._settle()
        (block,) = linked(self.state, [event], system_time)
        self.state = self.state.after([block])
        self._save(block.block_hash, block.data)
        return block.block_hash

    def stamp(
        self, template: BlockTemplate, values: Mapping[str, bytes] | None = None
    ) -> Multihash:
        """Append a block made from a template."""
        link = {
            _PREVIOUS: self.hashes[-1].digest,
            _NUMBER: len(self.hashes).to_bytes(_NUMBER_BYTES, "little"),
        }
        self.last = template.stamp({**link, **(values or {})})
        made = block_hash(self.last)
        self._save(made, self.last)
        return made

    def finish(self, *, has_summary: bool = True) -> MetadataChain:
        """Make the chain visible, and open it."""
        self._settle()
        self.storage.put(HEAD, str(self.hashes[-1]).encode())
        if has_summary:
            save_summary(self.storage, self.state)
        return MetadataChain.open(self.storage)

    def _settle(self) -> None:
        """Take notice of the block that was stamped last; those before it are forgotten."""
        if self.last:
            self.state = self.state.after([StoredBlock.received(self.last)])
            self.last = b""

    def _save(self, made: Multihash, data: bytes) -> None:
        self.storage.put(block_key(made), data)
        self.hashes.append(made)


def _find_places(data: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name in names:
        hash_bytes = placeholder_hash(name).digest
        number_bytes = placeholder_number(name).to_bytes(_NUMBER_BYTES, "little")
        searched = hash_bytes if hash_bytes in data else number_bytes
        if data.count(searched) != 1:
            raise InvalidInputError(f"placeholder {name!r} is not in the event exactly once")
        yield name, data.index(searched)
