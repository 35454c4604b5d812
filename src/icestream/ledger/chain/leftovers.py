"""Objects that no block leads to: what commits that were cut off, lost or taken back left behind.

An object is deleted only if it is older than a moment that the caller gives. That protects writers
who have saved objects and not moved the head yet: the moment must lie before the start of the
longest running one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from icestream.ledger.blocks.events import AddData, DataEvent, ExecuteTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.heads import Head, find_head
from icestream.ledger.chain.layout import DATA, HASHED, block_key, data_key, object_keys
from icestream.storage.protocol import ObjectInfo, Storage

_LINKED_OBJECTS = "opendatafabric.org/linkedObjects"
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What no block leads to."""

    objects: tuple[ObjectInfo, ...]
    spares_data: bool = False
    """Whether `data/` was left alone, because records may link to objects in it."""

    @property
    def size_bytes(self) -> int:
        """How much room they take."""
        return sum(info.size_bytes for info in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLeftovers:
    """What became of leftovers."""

    deleted: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    """Path to reason, for objects that are still there."""
    spares_data: bool = False


def find_leftovers(
    storage: Storage, *, older_than: datetime, linked: Collection[Multihash] | None = None
) -> Leftovers:
    """List what no block leads to and is older than a moment.

    Args:
        storage: With one dataset below its root, or the remains of one.
        older_than: Objects that are younger may belong to a commit that is under way.
        linked: Objects that records link to (RFC-017). If None, `data/` is left alone in datasets
            that announce such links, because only their records tell them.

    Raises:
        IntegrityError: A block of the chain is missing or damaged, so nothing can be told.
    """
    return _search(storage, older_than, linked)[0]


def delete_leftovers(
    storage: Storage, *, older_than: datetime, linked: Collection[Multihash] | None = None
) -> DeletedLeftovers:
    """Delete what no block leads to and is older than a moment; arguments as for finding it."""
    found, head = _search(storage, older_than, linked)
    # another writer may have brought blocks back since they were looked for
    used = _Used.by(storage, find_head(storage), known=head)
    paths = [info.path for info in found.objects if info.path not in used.keys]
    result = storage.delete_many(paths)
    return DeletedLeftovers(
        deleted=result.deleted, failed=result.failed, spares_data=found.spares_data
    )


@dataclass(frozen=True, slots=True)
class _Used:
    """What a chain leads to."""

    keys: set[str]
    has_links: bool

    @classmethod
    def by(cls, storage: Storage, head: Head | None, known: Head | None = None) -> Self:
        """Walk over a chain, down to what is known."""
        keys: set[str] = set()
        has_links = False
        walk = () if head is None else BlockStore(storage).walk(head.block_hash)
        for block in walk:
            if known is not None and block.block_hash == known.block_hash:
                break
            keys.add(block_key(block.block_hash))
            if isinstance(event := block.event, AddData | ExecuteTransform):
                keys.update(object_keys(event))
                has_links = has_links or _announces_links(event)
        return cls(keys, has_links)


def _search(
    storage: Storage, older_than: datetime, linked: Collection[Multihash] | None
) -> tuple[Leftovers, Head | None]:
    # in this order: what is committed meanwhile is referred to, or not listed
    old = [
        info
        for folder in HASHED
        for info in storage.list(folder)
        if info.last_modified + _SECOND <= older_than  # some stores cut times to seconds
    ]
    head = find_head(storage)
    used = _Used.by(storage, head)
    kept = used.keys | {data_key(link) for link in linked or ()}
    spares_data = used.has_links and linked is None
    objects = tuple(
        info
        for info in old
        if info.path not in kept and not (spares_data and info.path.startswith(DATA))
    )
    return Leftovers(objects=objects, spares_data=spares_data), head


def _announces_links(event: DataEvent) -> bool:
    extra = event.extra if isinstance(event, AddData) else None
    return extra is not None and _LINKED_OBJECTS in extra.entries
