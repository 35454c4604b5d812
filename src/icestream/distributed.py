"""Sessions out of arrays and into one, for frameworks that write from many workers."""

from collections.abc import Iterable, Iterator
from typing import Any

import zarr

from icestream.errors import ErrorKind, InvalidInputError, SessionStateError
from icestream.repository.session import ForkSession, Session
from icestream.zarr_store.store import IcestreamStore

__all__ = ["extract_session", "merge_sessions"]


def extract_session(zarray: "zarr.Array[Any]", axis: Any = None, keepdims: Any = None) -> Session:
    """Return the session that an array is read from or written to.

    `axis` and `keepdims` are there for reductions of array frameworks, and change nothing.
    """
    del axis, keepdims
    store = zarray.store
    if not isinstance(store, IcestreamStore):
        raise InvalidInputError(
            f"the array is in a {type(store).__name__}, not in the store of an icestream session"
        )
    session: Session = store.session
    return session


def merge_sessions(
    *sessions: ForkSession | list[ForkSession] | list[list[ForkSession]],
) -> ForkSession:
    """Merge forks, given in lists of any depth, into the first one, and return it.

    Raises:
        InvalidInputError: There is none.
        SessionStateError: One of them is not a fork.
    """
    # threads of one process share a fork: it is merged once
    forks: dict[int, ForkSession] = {id(fork): fork for fork in _flatten(sessions)}
    if not forks:
        raise InvalidInputError("there is no session to merge")
    for fork in forks.values():
        if not isinstance(fork, ForkSession):
            raise SessionStateError(
                f"only forks can be merged here, not a {type(fork).__name__}: make them with "
                "session.fork(), and merge the result into the session with session.merge(fork)",
                kind=ErrorKind.MERGE_NOT_ALLOWED,
            )
    merged, *others = forks.values()
    merged.merge(*others)
    return merged


def _flatten(sessions: Iterable[Any]) -> Iterator[Any]:
    for item in sessions:
        if isinstance(item, list | tuple):
            yield from _flatten(item)
        else:
            yield item
