"""Xarray objects written to a session."""

from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any, Literal

import zarr
from xarray import DataArray, Dataset
from xarray.backends.api import DATAARRAY_NAME, DATAARRAY_VARIABLE
from xarray.backends.common import ArrayWriter
from xarray.backends.writers import dump_to_store, get_writable_zarr_store

from icestream.errors import InvalidInputError
from icestream.repository.session import Session

__all__ = ["to_icestream"]

type Region = Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None
type ZarrWriteModes = Literal["w", "w-", "a", "a-", "r+", "r"]


def to_icestream(  # noqa: PLR0913  the parameters of icechunk's to_icechunk
    obj: DataArray | Dataset,
    session: Session,
    *,
    group: str | None = None,
    mode: ZarrWriteModes | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    append_dim: Hashable | None = None,
    region: Region = None,
    encoding: Mapping[Any, Any] | None = None,
    chunkmanager_store_kwargs: MutableMapping[Any, Any] | None = None,
    split_every: int | None = None,
) -> None:
    """Write an xarray object to a group of a session; commit the session to make it a version.

    The parameters mean what they mean in `xarray.Dataset.to_zarr`. Dask arrays are written by a
    fork of the session that is merged when all is computed, so any dask scheduler will do.

    Args:
        obj: What to write.
        session: Where to: a writable session or a fork.
        group: Path of the group; the root by default.
        mode: "w" replaces, "w-" creates, "a" replaces variables or appends, "a-" only appends,
            "r+" changes values only. The default is "a" with `append_dim`, "r+" with `region`,
            and "w-" otherwise.
        safe_chunks: Refuse writes in which two dask chunks would touch one zarr chunk.
        align_chunks: Rechunk dask arrays so that no two of their chunks touch one zarr chunk.
        append_dim: The dimension along which to append.
        region: The part of existing arrays to write to, per dimension; "auto" finds it by the
            coordinates.
        encoding: Per variable, how to store it.
        chunkmanager_store_kwargs: Passed on to `dask.array.store`.
        split_every: How many sets of changes to merge at a time.
    """
    if not isinstance(session, Session):
        raise InvalidInputError(f"{session!r} is not a session; use repo.writable_session(branch)")
    dataset = _as_dataset(obj)
    target = get_writable_zarr_store(
        session.store,
        mode=mode,
        group=group,
        consolidated=False,
        append_dim=append_dim,
        region=region,
        safe_chunks=safe_chunks,
        align_chunks=align_chunks,
        zarr_format=3,
    )
    dataset = target._validate_and_autodetect_region(dataset)  # noqa: SLF001  as to_zarr does
    target._validate_encoding(encoding or {})  # noqa: SLF001  as to_zarr does
    writer = ArrayWriter()  # type: ignore[no-untyped-call]  # xarray is partly typed
    dump_to_store(dataset, target, writer, encoding=encoding)  # type: ignore[no-untyped-call]  # same
    if writer.sources:
        _write_lazily(session, writer, split_every, **(chunkmanager_store_kwargs or {}))


def _write_lazily(
    session: Session, writer: ArrayWriter, split_every: int | None, **store_kwargs: Any
) -> None:
    """Compute the chunked arrays that are left in a fork, which holds their metadata already."""
    from icestream.dask import store_dask  # noqa: PLC0415  optional dependency

    fork = session.fork()
    targets = [
        zarr.open_array(fork.store, path=target.path, mode="r+") for target in writer.targets
    ]
    session.merge(
        store_dask(
            sources=writer.sources,
            targets=targets,
            regions=writer.regions,
            split_every=split_every,
            **store_kwargs,
        )
    )


def _as_dataset(obj: DataArray | Dataset) -> Dataset:
    """Return a data array as the dataset that xarray's own to_zarr stores, and reads back."""
    if isinstance(obj, Dataset):
        return obj
    if obj.name is None:
        return obj.to_dataset(name=DATAARRAY_VARIABLE)
    if obj.name in obj.coords or obj.name in obj.dims:
        dataset = obj.to_dataset(name=DATAARRAY_VARIABLE)
        dataset.attrs[DATAARRAY_NAME] = obj.name
        return dataset
    return obj.to_dataset()
