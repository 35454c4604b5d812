"""Dask arrays written to a session, from threads, processes or a cluster."""

from collections.abc import Sequence
from typing import Any, cast

import dask.array as da
import numpy as np
import zarr

from icestream.distributed import extract_session, merge_sessions
from icestream.errors import ErrorKind, SessionStateError
from icestream.repository.session import ForkSession

__all__ = ["session_merge_reduction", "store_dask"]


def store_dask(
    *,
    sources: list[da.Array],
    targets: "list[zarr.Array[Any]]",
    regions: list[tuple[slice, ...]] | None = None,
    split_every: int | None = None,
    **store_kwargs: Any,
) -> ForkSession:
    """Compute dask arrays into zarr arrays of a fork, and return the fork with all changes.

    The counterpart of `dask.array.store`. Merge what it returns into the session:
    `session.merge(store_dask(...))`.

    Args:
        sources: What to write.
        targets: Where to, one for each source: zarr arrays opened in `session.fork().store`.
        regions: The part of each target to write to; all of it by default.
        split_every: How many sets of changes to merge at a time.
        **store_kwargs: Passed on to `dask.array.store`; `compute`, `return_stored`, `load_stored`
            and `lock` are taken.

    Raises:
        SessionStateError: A target is not in a fork, so its changes could not come back.
    """
    for target in targets:
        if not isinstance(extract_session(target), ForkSession):
            raise SessionStateError(
                f"the array {target.path!r} is not in a fork, so what workers write could be lost; "
                "open it in session.fork().store",
                kind=ErrorKind.MERGE_NOT_ALLOWED,
            )
    stored = da.store(
        sources=sources,
        targets=cast("Any", targets),  # dask knows no zarr arrays, it only assigns to them
        regions=regions,
        compute=False,
        return_stored=True,
        load_stored=False,
        lock=False,
        **store_kwargs,
    )
    return session_merge_reduction(stored, split_every=split_every)


def session_merge_reduction(
    arrays: da.Array | Sequence[da.Array], *, split_every: int | None, **store_kwargs: Any
) -> ForkSession:
    """Compute arrays whose blocks are zarr arrays, and merge the forks that these are in.

    Forks are merged by a tree of tasks, so that no worker sees the changes of all others.
    `store_kwargs` are passed on to `dask.array.reduction`.
    """
    listed = list(arrays) if isinstance(arrays, list | tuple) else [arrays]
    forks = [
        da.reduction(  # type: ignore[no-untyped-call]  # dask is partly typed
            array,
            chunk=_session_of_block,
            aggregate=_merged_blocks,
            name="icestream-changes",
            split_every=split_every,
            concatenate=False,
            keepdims=False,
            dtype=object,
            meta=_META,
            **store_kwargs,
        )
        for array in listed
    ]
    computed = da.compute(*forks)  # type: ignore[no-untyped-call]  # dask is partly typed
    return merge_sessions(*computed)


_META = np.empty(0, object)


def _session_of_block(
    block: Any, axis: Any = None, keepdims: Any = None, *, computing_meta: bool = False
) -> Any:
    del axis, keepdims
    return _META if computing_meta else extract_session(block)


def _merged_blocks(
    sessions: Any, axis: Any = None, keepdims: Any = None, *, computing_meta: bool = False
) -> Any:
    del axis, keepdims
    return _META if computing_meta else merge_sessions(sessions)
