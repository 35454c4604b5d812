"""A probe: does the store honour the conditions of conditional writes?

Some stores with an S3 interface ignore them and overwrite. Two writers on such a store lose
commits without a word, so it is refused for writing.
"""

import random

from icestream.errors import AlreadyExistsError, ConflictError, ErrorKind, StorageError
from icestream.storage.protocol import Storage, Version

_FALSE_VERSION = Version(etag="0" * 32, generation="1")


def check_preconditions(storage: Storage, store_name: str) -> None:
    """Try conditional writes on an object of our own, and take it away again.

    Raises:
        StorageError: A condition was ignored, or one that holds was not accepted.
    """
    # a name that no object of a repository has, and that local listings hide
    path = f"probe#{random.getrandbits(63)}"
    try:
        _probe(storage, path, store_name)
    finally:
        storage.delete_many([path])


def _probe(storage: Storage, path: str, store_name: str) -> None:
    version = storage.put_if_absent(path, b"first")
    if _creates(storage, path):
        raise _refusal(store_name, "replaced an object that was to be created")
    if _replaces(storage, path, _FALSE_VERSION):
        raise _refusal(store_name, "replaced an object that had another version")
    if not _replaces(storage, path, version):
        raise _refusal(store_name, "did not replace an object that had the right version")


def _creates(storage: Storage, path: str) -> bool:
    try:
        storage.put_if_absent(path, b"second")
    except AlreadyExistsError:
        return False
    return True


def _replaces(storage: Storage, path: str, version: Version) -> bool:
    try:
        storage.put_if_version(path, b"third", version)
    except ConflictError:
        return False
    return True


def _refusal(store_name: str, deed: str) -> StorageError:
    return StorageError(
        f"{store_name} is not safe to write to: asked for conditional writes, it {deed}, and "
        "commits of other writers could be lost; use a store with conditional writes "
        "(If-Match and If-None-Match), or a newer version of this one",
        kind=ErrorKind.PRECONDITIONS_IGNORED,
    )
