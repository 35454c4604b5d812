"""The zarr store, under the public name of the icechunk package."""

from icestream.zarr_store.store import IcestreamStore

__all__ = ["IcestreamStore"]
