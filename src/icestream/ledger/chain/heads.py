"""`refs/head`: the hash of the last block, moved by compare-and-swap."""

from dataclasses import dataclass

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    NotFoundError,
)
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.layout import HEAD
from icestream.storage.protocol import Storage, Version


@dataclass(frozen=True, slots=True)
class Head:
    """The last block of a chain, and the version of the object that names it."""

    block_hash: Multihash
    version: Version


def find_head(storage: Storage) -> Head | None:
    """Return the head of the dataset below a root, or None if there is no dataset.

    Raises:
        FormatError: The object is there and holds something else than a hash.
    """
    try:
        data, version = storage.get_versioned(HEAD)
    except NotFoundError:
        return None
    try:
        return Head(Multihash.parse(data.decode()), version)
    except (InvalidInputError, UnicodeDecodeError) as error:
        raise FormatError(
            f"{HEAD} holds {data[:80]!r} (rule head-names-a-block); write the hash of the last"
            " block there, without a newline"
        ) from error


def get_head(storage: Storage) -> Head:
    """Return the head of the dataset below a root.

    Raises:
        NotFoundError: There is no dataset.
    """
    if head := find_head(storage):
        return head
    raise NotFoundError(
        f"there is no dataset in {storage!r}: {HEAD} is missing", kind=ErrorKind.REF_NOT_FOUND
    )


def move_head(storage: Storage, current: Head | None, target: Multihash) -> Head:
    """Let the head name another block, if it is still the one that the caller knows.

    Raises:
        ConflictError: Somebody else moved it, or created the dataset.
        CommitUnknownError: The answer was lost.
    """
    data = str(target).encode()
    try:
        if current is None:
            version = storage.put_if_absent(HEAD, data)
        else:
            version = storage.put_if_version(HEAD, data, current.version)
    except (AlreadyExistsError, ConflictError) as error:
        expected = None if current is None else current.block_hash
        raise lost_race(expected, find_head(storage)) from error
    return Head(target, version)


def lost_race(expected: Multihash | None, actual: Head | None) -> ConflictError:
    """Return the error of a writer who came second."""
    found = "nothing" if actual is None else str(actual.block_hash)
    return ConflictError(
        f"{HEAD} is at {found}, not at {expected or 'nothing'}: another writer was first;"
        " refresh, judge anew what to append, and try again",
        expected_parent=None if expected is None else str(expected),
        actual_parent=None if actual is None else found,
    )
