"""Virtual datasets of VirtualiZarr written to a session: as references, not as copies."""

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zarr
from virtualizarr.manifests import ManifestArray
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH, MISSING_CHUNK_PATH, ChunkManifest
from xarray import Dataset, Variable
from xarray.backends.writers import get_writable_zarr_store
from xarray.backends.zarr import FillValueCoder, encode_zarr_attr_value
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.chunk_key_encodings import DefaultChunkKeyEncoding
from zarr.core.metadata.v3 import ArrayV3Metadata

from icestream.errors import (
    AlreadyExistsError,
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NodeNotFoundError,
    StorageError,
)
from icestream.model.chunk_tables import UInt32
from icestream.model.locations import SCHEME
from icestream.model.nodes import ArrayNode, GroupNode
from icestream.model.paths import absolute
from icestream.repository.session import ForkSession, Session
from icestream.repository.working_copy import SessionMode, WorkingCopy
from icestream.storage.protocol import ObjectInfo
from icestream.virtual.object_infos import object_infos
from icestream.virtual.reader import VirtualReader
from icestream.xarray import Region, to_icestream
from icestream.zarr_store.checksums import Checksum, ChecksumColumn, split_checksum
from icestream.zarr_store.store import IcestreamStore

__all__ = ["write_virtual_dataset"]

type ChecksumChoice = Literal["etag", "last-modified"] | datetime | None

_DECODING = ("_FillValue", "missing_value", "scale_factor", "add_offset")
"""Attributes that turn stored values into real ones; xarray may keep them in the encoding."""
_MEANING = (*_DECODING, "_Unsigned", "units", "calendar")
"""Attributes without which stored values mean something else."""
_FIELDS = {
    "data_type": "dtype",
    "chunk_grid": "chunk shape",
    "codecs": "codecs",
    "fill_value": "fill value",
    "dimension_names": "dimensions",
    "storage_transformers": "storage transformers",
}
"""Fields of zarr.json that the chunks of one array share, and what people call them."""
_INLINE_WRITERS = 16


def write_virtual_dataset(  # noqa: PLR0913  all of them say where to and how
    vds: Dataset,
    store: IcestreamStore,
    *,
    group: str | None = None,
    append_dim: Hashable | None = None,
    region: Region = None,
    protocol: str | None = None,
    checksums: ChecksumChoice = "etag",
    validate_containers: bool = True,
) -> None:
    """Write a virtual dataset to a group of a session; commit the session to make it a version.

    Variables that are manifest arrays become references to the files they were found in, chunks
    that a manifest holds itself become chunks of the repository, and loaded variables are written
    as `icestream.xarray.to_icestream` writes them. All is written, or nothing.

    Args:
        vds: What to write, as `virtualizarr.open_virtual_dataset` gives it.
        store: Where to: the store of a writable session or a fork.
        group: Path of the group; the root by default. It is made if it is not there.
        append_dim: The dimension along which to append to variables that are there.
        region: The part of existing variables to write to, per dimension, in whole chunks; "auto"
            finds it by the coordinates. As in xarray, index variables are not written again.
        protocol: The scheme that locations get in place of their own, such as `modela`.
        checksums: What is recorded of each file so that later changes are noticed: its ETag or the
            time of its last change, which costs a request per file at most; one time for all files,
            best taken before they were opened; or nothing.
        validate_containers: Refuse locations that no virtual chunk container covers.

    Raises:
        AccessError: A checksum needs a file that the repository was not opened for, see
            `authorize_virtual_chunk_access`.
        AlreadyExistsError: A variable is there, and neither `append_dim` nor `region` was given.
        InvalidInputError: A variable does not fit to what is there, or a location is invalid or not
            covered by a container.
        NodeNotFoundError: What is to be added to is not there.
        StorageError: A file is gone, or its store does not tell its ETag.
    """
    session = _session_of(store)
    _check_choices(vds, append_dim, region, checksums)
    place = _Place(absolute(group or ""), append_dim)
    with _draft_of(session, map(place.path_of, _loaded(vds))) as draft:
        if region is not None:
            place.expect_group(draft)
            vds, slices = _settled_region(vds, draft, place.group, region)
            place = replace(place, region=slices)
        virtual = {
            str(name): variable
            for name, variable in vds.variables.items()
            if isinstance(variable.data, ManifestArray)
        }
        place.check(draft, vds)
        writes = [
            _planned(name, variable, place, session, _checked_protocol(protocol))
            for name, variable in virtual.items()
        ]
        columns = _checksum_columns(writes, checksums, session, validate=validate_containers)
        attributes = place.attributes(draft, vds)
        _write_loaded(vds.drop_vars(list(virtual)), draft, place)
        for write, checksum in zip(writes, columns, strict=True):
            write.apply(draft, checksum, validate_containers=validate_containers)
        if region is None:
            zarr.open_group(draft.store, path=place.group, mode="r+").attrs.put(attributes)
