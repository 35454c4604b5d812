"""`info/summary`: the state of a chain at one block, so that opening needs no walk.

It holds the bytes of the few blocks that make up the state. It is no part of the chain: it may be
lost, old or damaged, and is made anew from the blocks. Each block in it is checked against the hash
that names it, all of them together against a digest, and the newest one against the chain.
"""

import base64
import json
import logging
from typing import Any

from icestream.errors import (
    FormatError,
    IcestreamError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from icestream.ledger.blocks.hashes import Multihash, sha3_256
from icestream.ledger.chain.layout import SUMMARY
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.storage.protocol import Storage

_VERSION = 1

logger = logging.getLogger(__name__)


def encode_summary(state: ChainState) -> bytes:
    """Return the bytes of a summary."""
    blocks = state.blocks
    document = {
        "version": _VERSION,
        "block": str(state.head.block_hash),
        "digest": str(_digest(blocks)),
        "blocks": {
            str(block.block_hash): base64.b64encode(block.data).decode() for block in blocks
        },
    }
    return json.dumps(document, indent=1).encode()


def decode_summary(data: bytes) -> ChainState:
    """Return the state that a summary holds.

    Raises:
        IntegrityError: It is damaged, or written by a version that is not known here.
        FormatError: A block in it has a version that is not known here.
    """
    try:
        document = json.loads(data)
        if document["version"] != _VERSION:
            raise IntegrityError(f"{SUMMARY} has the unknown version {document['version']!r}")
        return _decode_document(document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IntegrityError(f"{SUMMARY} is damaged: {error}") from error


def find_summary(storage: Storage) -> ChainState | None:
    """Return the stored summary; None if there is none that can be used."""
    try:
        return decode_summary(storage.get(SUMMARY))
    except NotFoundError:
        return None
    except (IntegrityError, FormatError, InvalidInputError) as error:
        # whatever is wrong with it, the blocks tell the same
        logger.warning("summary not used", extra={"reason": str(error)})
        return None


def save_summary(storage: Storage, state: ChainState) -> bool:
    """Write the summary, if that is possible; without it the chain is merely slower to open."""
    if storage.read_only:
        return False
    try:
        storage.put(SUMMARY, encode_summary(state))
    except IcestreamError as error:
        logger.warning("summary not written", extra={"reason": str(error)})
        return False
    return True


def _decode_document(document: Any) -> ChainState:
    blocks = [_decode_block(*item) for item in document["blocks"].items()]
    numbers = [block.sequence_number for block in blocks]
    if numbers != sorted(set(numbers)):
        raise IntegrityError(f"{SUMMARY} has its blocks in the wrong order")
    if str(_digest(blocks)) != document["digest"]:
        raise IntegrityError(f"{SUMMARY} does not have the digest that it states")
    if not blocks or str(blocks[-1].block_hash) != document["block"]:
        raise IntegrityError(f"{SUMMARY} does not hold the block that it is about")
    return ChainState.fold(blocks)


def _decode_block(name: str, text: str) -> StoredBlock:
    data = base64.b64decode(text, validate=True)
    return StoredBlock.received(data, Multihash.parse(name), name=f"{name} in {SUMMARY}")


def _digest(blocks: list[StoredBlock]) -> Multihash:
    """Return what binds the blocks of a summary together: none can be left out or added."""
    return sha3_256(b"".join(block.block_hash.to_bytes() for block in blocks))
