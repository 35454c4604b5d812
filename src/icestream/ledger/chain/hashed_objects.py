"""Objects that are named by the hash of their bytes."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from icestream.errors import AlreadyExistsError, CommitUnknownError, IntegrityError, NotFoundError
from icestream.storage.protocol import Storage

_THREADS = 16


def save_object(storage: Storage, key: str, data: bytes) -> None:
    """Write an object under the name of its content.

    One that is there already, or may be, is written again. That mends damaged bytes, and makes
    the object young: collecting leftovers spares what is young, and it may have been one.
    """
    try:
        # a conditional put, because local storages force these to the disk
        storage.put_if_absent(key, data)
    except (AlreadyExistsError, CommitUnknownError):
        storage.put(key, data)


def save_objects(storage: Storage, objects: Mapping[str, bytes]) -> None:
    """Write many objects at once."""
    if len(objects) <= 1 or storage.reads_inline:
        for key, data in objects.items():
            save_object(storage, key, data)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda item: save_object(storage, *item), objects.items()))


def load_object(storage: Storage, key: str) -> bytes:
    """Return the bytes of an object that something refers to.

    Raises:
        IntegrityError: The object is missing.
    """
    try:
        return storage.get(key)
    except NotFoundError as error:
        raise missing(key) from error


def missing(key: str) -> IntegrityError:
    """Return the error of a reference that leads nowhere."""
    return IntegrityError(
        f"{key} is missing (rule objects-exist); copy it from another replica of the dataset",
        rule="objects-exist",
    )


def missing_objects(storage: Storage, keys: Sequence[str]) -> list[str]:
    """Return which objects are not there, looking for many at once."""
    if len(keys) <= 1 or storage.reads_inline:
        return [key for key in keys if not has_object(storage, key)]
    with ThreadPoolExecutor(_THREADS) as pool:
        present = pool.map(lambda key: has_object(storage, key), keys)
        return [key for key, is_there in zip(keys, present, strict=True) if not is_there]


def has_object(storage: Storage, key: str) -> bool:
    """Tell whether there is an object, without reading it."""
    try:
        storage.head(key)
    except NotFoundError:
        return False
    return True
