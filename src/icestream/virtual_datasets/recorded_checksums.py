"""What is recorded of files, so that later changes of them are noticed."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError, StorageError
from icestream.parsers.manifest_columns import ManifestColumns
from icestream.storage.protocol import ObjectInfo
from icestream.virtual.object_infos import Resolve, object_infos
from icestream.zarr_store.checksums import Checksum, ChecksumColumn, split_checksum

type ChecksumChoice = Literal["etag", "last-modified"] | datetime | None

_EPOCH = datetime.fromtimestamp(0, UTC)
"""What is given as the time of change where a web server gives none."""


def check_choice(choice: ChecksumChoice) -> None:
    """Refuse what is no choice of checksums.

    Raises:
        InvalidInputError: It is none, or a time without time zone.
    """
    if isinstance(choice, datetime):
        split_checksum(choice)
    elif choice not in {"etag", "last-modified", None}:
        raise InvalidInputError(
            f"checksums is {choice!r}; give 'etag', 'last-modified', an aware datetime or None"
        )


def checksum_columns(
    manifests: Sequence[ManifestColumns], choice: ChecksumChoice, resolve: Resolve
) -> list[Checksum | ChecksumColumn | None]:
    """Return the checksums of all references; every file is asked for once.

    Raises:
        AccessError: A file is not to be read.
        StorageError: A file is gone, or its store does not tell.
    """
    if choice not in {"etag", "last-modified"}:
        return [choice] * len(manifests)
    pools = [manifest.distinct_locations.to_pylist() for manifest in manifests]
    infos = object_infos(resolve, dict.fromkeys(location for pool in pools for location in pool))
    if choice == "etag":
        etags = {location: _etag(location, info) for location, info in infos.items()}
        return [
            _column_of_etags(manifest, [etags[location] for location in pool])
            for manifest, pool in zip(manifests, pools, strict=True)
        ]
    times = {location: _seconds(location, info) for location, info in infos.items()}
    return [
        _column_of_times(manifest, pool, times)
        for manifest, pool in zip(manifests, pools, strict=True)
    ]


def _column_of_etags(manifest: ManifestColumns, etags: Sequence[str]) -> pa.DictionaryArray:
    pool = pa.array(etags, pa.large_string())
    return pa.DictionaryArray.from_arrays(manifest.locations.indices, pool)


def _column_of_times(
    manifest: ManifestColumns, pool: Sequence[str], times: Mapping[str, int]
) -> ChecksumColumn:
    if not pool:
        return np.zeros(len(manifest.lengths), np.uint32)
    seconds = np.array([times[location] for location in pool], np.uint32)
    return seconds[manifest.codes]


def _etag(location: str, info: ObjectInfo) -> str:
    if info.version.etag is None:
        raise _silent(location, "ETag", "last-modified")
    return info.version.etag


def _seconds(location: str, info: ObjectInfo) -> int:
    if info.last_modified == _EPOCH:
        raise _silent(location, "time of change", "etag")
    # the next full second: icechunk compares with fractions, and would find the file changed
    return int(-((_EPOCH - info.last_modified) // timedelta(seconds=1)))


def _silent(location: str, what: str, other: str) -> StorageError:
    return StorageError(
        f"the store of {location} names no {what}; use checksums={other!r}, a time, or None",
        kind=ErrorKind.PRECONDITIONS_IGNORED,
    )
