"""Scanned files made by hand, and archives that declare them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.archive_states import ArchiveState, encode_state
from icestream.ingest.declaration.archives import Archive, Axis, Combination, Target
from icestream.ingest.facts import facts_of
from icestream.ingest.file_columns import FileColumns, gather
from icestream.ingest.placement.placing import Placement, plan_placement
from icestream.model.chunk_tables import ChunkTable, dense_index
from icestream.parsers.file_references import inline_chunks, references_to
from icestream.parsers.scanned_files import FileIdentity, ScannedArray, ScannedFile
from icestream.parsers.source_files import SourceFile
from icestream.storage.memory import InMemoryStorage

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}]


def archive(*axes: Axis, **settings: Any) -> Archive:
    """Return an archive whose files are put along axes."""
    combine = settings.pop("combine", None) or Combination(along=axes)
    given = {"name": "sst", "sources": ("s3://b/",), "target": Target(repository="repo")}
    return Archive(**{**given, "combine": combine, **settings})


def virtual_array(
    url: str,
    dims: Iterable[str],
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    **changes: Any,
) -> ScannedArray:
    """Return an array of 4-byte elements, all of whose chunks are in the file."""
    attributes = changes.pop("attributes", {})
    grid = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
    n = int(np.prod(grid))
    size = 4 * int(np.prod(chunks))
    table = references_to(_source(url), dense_index(grid), np.arange(n) * size, np.full(n, size))
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": CODECS,
        "dimension_names": list(dims),
        "attributes": attributes,
    }
    return ScannedArray({**document, **changes}, table)


def inline_array(data: bytes, attributes: Mapping[str, Any] | None = None) -> ScannedArray:
    """Return a scalar whose bytes are known."""
    array = virtual_array("memory://x", (), (), (), attributes=dict(attributes or {}))
    return ScannedArray(array.metadata, inline_chunks({(): data}, 0))


def scanned_file(
    url: str,
    arrays: Mapping[str, ScannedArray],
    coordinates: Mapping[str, npt.ArrayLike] | None = None,
    **attributes: Mapping[str, Any],
) -> ScannedFile:
    """Return a file with arrays, and with coordinates of dimensions whose values are loaded."""
    values = {f"/{name}": np.asarray(value) for name, value in (coordinates or {}).items()}
    loaded = {
        path: virtual_array(
            url, (path[1:],), found.shape, (512,), attributes=dict(attributes.get(path[1:], {}))
        )
        for path, found in values.items()
    }
    return ScannedFile(
        url=url,
        identity=_identity(),
        parser="made by hand",
        groups={"/": {}},
        arrays={**{f"/{name}": array for name, array in arrays.items()}, **loaded},
        values=values,
    )


def daily_file(day: int, *, steps: int = 1, **changes: Any) -> ScannedFile:
    """Return the file of one day, which counts hours since its own midnight."""
    url = changes.pop("url", f"s3://b/sst-{day:04}.nc")
    chunks = changes.pop("chunks", (1, 2, 2))
    sst = virtual_array(url, ("time", "lat", "lon"), (steps, 4, 4), chunks, **changes)
    date = np.datetime64("2020-01-01") + np.timedelta64(day, "D")
    return scanned_file(
        url,
        {"sst": sst},
        {"time": np.arange(steps) * 24 / steps, "lat": np.arange(4.0), "lon": np.arange(4.0)},
        time={"units": f"hours since {date} 00:00:00", "calendar": "standard"},
    )


def columns(files: Iterable[ScannedFile], declared: Archive) -> FileColumns:
    """Return the facts of files as columns."""
    return gather(facts_of(file, declared) for file in files)


def planned(files: Iterable[ScannedFile], declared: Archive) -> Placement:
    """Return where files go, with all problems."""
    return plan_placement(columns(files, declared), declared)


def stored(files: FileColumns) -> bytes:
    """Return files as a run leaves them to the next."""
    return encode_state(ArchiveState(files=files))


def table_of(file: ScannedFile, path: str) -> ChunkTable:
    """Return the references of one array of a file."""
    return file.arrays[path].references


def _identity() -> FileIdentity:
    return FileIdentity(size=1000, etag="abc", last_modified=NOON)


def _source(url: str) -> SourceFile:
    storage = InMemoryStorage()
    return SourceFile(url, storage, "key", _identity(), lambda _: (storage, "key"))
