"""Checks the files that a chain names: slices and checkpoints."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from icestream.errors import FormatError, IntegrityError, InvalidInputError, NotFoundError
from icestream.ledger.blocks.events import (
    AddData,
    Checkpoint,
    DataEvent,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    Seed,
    SetDataSchema,
    SetVocab,
)
from icestream.ledger.blocks.hashes import PHYSICAL_CODE, Multihash, sha3_256
from icestream.ledger.chain.layout import checkpoint_key, data_key
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.storage.protocol import Storage

_PART_BYTES = 8_000_000
"""Larger files are hashed piece by piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceContext:
    """What a chain says about a slice where it names it."""

    key: str
    facts: DataSlice
    schema: SetDataSchema | None
    vocabulary: SetVocab


class SliceCheck(Protocol):
    """Looks into the bytes of a slice."""

    def __call__(self, data: bytes, context: SliceContext) -> None:
        """Accept a slice.

        Raises:
            IntegrityError: Its records are not those that its block tells of; FormatError and
                InvalidInputError mean the same.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedObject:
    """A file, and what the first block that names it says about it."""

    key: str
    facts: DataSlice | Checkpoint
    sequence_number: int
    is_derivative: bool
    schema: SetDataSchema | None
    vocabulary: SetVocab

    @property
    def is_slice(self) -> bool:
        """Whether it is a slice, not a checkpoint."""
        return isinstance(self.facts, DataSlice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with a file: `rule` is empty if nothing is."""

    checked: CheckedObject
    size_bytes: int = 0
    rule: str = ""
    message: str = ""


def named_objects(blocks: Iterable[StoredBlock]) -> Iterator[CheckedObject]:
    """Yield the files that blocks, oldest first, name, with schema and vocabulary in force."""
    schema: SetDataSchema | None = None
    vocabulary, is_derivative = SetVocab(), False
    for block in blocks:
        event = block.event
        if isinstance(event, Seed):
            is_derivative = event.dataset_kind is DatasetKind.DERIVATIVE
        elif isinstance(event, SetDataSchema):
            schema = event
        elif isinstance(event, SetVocab):
            vocabulary = event
        elif isinstance(event, AddData | ExecuteTransform):
            for key, facts in _files(event):
                yield CheckedObject(
                    key=key,
                    facts=facts,
                    sequence_number=block.sequence_number,
                    is_derivative=is_derivative,
                    schema=schema,
                    vocabulary=vocabulary,
                )


def check_object(
    storage: Storage, checked: CheckedObject, check_slice: SliceCheck | None = None
) -> Finding:
    """Compare a file with its size and hash, and a slice with its content if a check is given.

    A slice of a derivative dataset may have other bytes than those recorded, if its content is
    right: whoever replays a transform writes the same records, not the same file.
    """
    facts = checked.facts
    try:
        if check_slice is None or not isinstance(facts, DataSlice):
            return _compare(checked, *_measure(storage, checked))
        data = storage.get(checked.key)
    except NotFoundError:
        return Finding(checked=checked, rule="objects-exist", message=f"{checked.key} is missing")
    content = _check_content(checked, facts, data, check_slice)
    bytes_ = _compare(checked, len(data), sha3_256(data))
    if checked.is_derivative or not bytes_.rule:
        return content
    return bytes_


def _files(event: DataEvent) -> Iterator[tuple[str, DataSlice | Checkpoint]]:
    if event.new_data is not None:
        yield data_key(event.new_data.physical_hash), event.new_data
    if event.new_checkpoint is not None:
        yield checkpoint_key(event.new_checkpoint.physical_hash), event.new_checkpoint


def _check_content(
    checked: CheckedObject, facts: DataSlice, data: bytes, check_slice: SliceCheck
) -> Finding:
    context = SliceContext(
        key=checked.key, facts=facts, schema=checked.schema, vocabulary=checked.vocabulary
    )
    try:
        check_slice(data, context)
    except (IntegrityError, FormatError, InvalidInputError) as error:
        told = str(error)
        return Finding(
            checked=checked,
            size_bytes=len(data),
            rule="slice-holds-its-records",
            message=told if checked.key in told else f"{checked.key}: {told}",
        )
    return Finding(checked=checked, size_bytes=len(data))


def _compare(checked: CheckedObject, size: int, found: Multihash | None) -> Finding:
    facts, key = checked.facts, checked.key
    if size != facts.size:
        rule, message = "size-matches-block", f"{key} has {size} bytes, not {facts.size}"
    elif found != facts.physical_hash:
        rule, message = "hash-matches-name", f"{key} has bytes of hash {found}"
    else:
        rule = message = ""
    return Finding(checked=checked, size_bytes=size, rule=rule, message=message)


def _measure(storage: Storage, checked: CheckedObject) -> tuple[int, Multihash | None]:
    """Return size and hash of a file; no hash if the size is wrong already."""
    size = checked.facts.size
    if size <= _PART_BYTES:
        data = storage.get(checked.key)
        return len(data), sha3_256(data)
    found = storage.head(checked.key).size_bytes
    if found != size:
        return found, None
    hasher = hashlib.sha3_256()
    for start in range(0, size, _PART_BYTES):
        hasher.update(storage.get(checked.key, (start, min(start + _PART_BYTES, size))))
    return size, Multihash(PHYSICAL_CODE, hasher.digest())
