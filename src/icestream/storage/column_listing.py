"""Listings as columns: archives have more objects than there is time to make objects of them."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, StorageError
from icestream.storage.listing import resumed_pages
from icestream.storage.local import etag_of, scan_folder
from icestream.storage.local_files import LocalFiles
from icestream.storage.object_store import ObjectStorage
from icestream.storage.obstore_library import failures, library
from icestream.storage.protocol import ObjectInfo, Storage
from icestream.storage.translation import shown_cause, translate

TIME_TYPE = pa.timestamp("us", "UTC")
LISTING_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("etag", pa.string()),
        pa.field("last_modified", TIME_TYPE),
    ]
)
"""Paths below the root of the storage; ETags without quotes, as `Version` has them."""

_PAGE = 1000
"""What all stores give at once."""

type Descends = Callable[[str], bool]
"""Tells whether to look into a folder, by its path below the root."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectListing:
    """What is below a folder, and how many requests it took to learn it."""

    table: pa.Table
    num_requests: int


def list_columns(
    storage: Storage, folder: str = "", *, descends: Descends | None = None
) -> ObjectListing:
    """Return all objects below a folder, in no promised order.

    Args:
        storage: Where to look.
        folder: Empty, or ending in a slash.
        descends: Which local folders to look into; by default all. Object stores have none.

    Raises:
        StorageError: The store fails, or has no listings.
    """
    backend = storage.backend
    if isinstance(backend, LocalFiles):
        return _list_files(backend, folder, descends or (lambda _: True))
    if isinstance(backend, ObjectStorage) and not backend.address.encodes_keys and _lists(backend):
        return _list_remote(backend, folder)
    return _of_infos(list(storage.list(folder)))


def listing_of(info: ObjectInfo) -> ObjectListing:
    """Return a single object as a listing."""
    return _of_infos([info])


def _lists(storage: ObjectStorage) -> bool:
    return type(storage).list is ObjectStorage.list


def _of_infos(infos: list[ObjectInfo]) -> ObjectListing:
    columns = [
        pa.array([info.path for info in infos], pa.string()),
        pa.array([info.size_bytes for info in infos], pa.int64()),
        pa.array([info.version.etag for info in infos], pa.string()),
        _named_times(pa.array([info.last_modified for info in infos], TIME_TYPE)),
    ]
    num_requests = max(1, -(-len(infos) // _PAGE))
    return ObjectListing(pa.table(columns, schema=LISTING_SCHEMA), num_requests)


def _named_times(times: pa.Array) -> pa.Array:
    """Return times, null where a server gave none and obstore says 1970."""
    return pc.if_else(pc.equal(times.cast(pa.int64()), 0), pa.scalar(None, times.type), times)


# -- object stores ---------------------------------------------------------------------------------


class BatchPages:
    """Pages as Arrow record batches."""

    def keys(self, page: pa.RecordBatch) -> list[str]:
        """Return the keys of a page."""
        keys: list[str] = page.column("path").to_pylist()
        return keys

    def behind(self, page: pa.RecordBatch, key: str) -> pa.RecordBatch:
        """Return the part of a page with keys behind one."""
        return page.filter(pc.greater(page.column("path"), key))


def _list_remote(storage: ObjectStorage, folder: str) -> ObjectListing:
    prefix = folder.rstrip("/") or None

    def open_pages(offset: str | None) -> Iterator[pa.RecordBatch]:
        pages: Iterator[Any] = library().list(
            storage.reader, prefix, offset=offset, chunk_size=_PAGE, return_arrow=True
        )
        return map(pa.record_batch, pages)

    try:
        pages = list(resumed_pages(open_pages, storage.retry, BatchPages()))
    except failures() as error:
        place = f"{folder} in {storage.address.url}"
        raise translate(error, "list", place) from shown_cause(error)
    tables = [listed_page(page) for page in pages]
    empty = LISTING_SCHEMA.empty_table()
    return ObjectListing(pa.concat_tables([empty, *tables]), max(len(pages), 1))


def listed_page(page: pa.RecordBatch) -> pa.Table:
    """Return a page of obstore as a listing has it."""
    etags = page.column("e_tag").cast(pa.string())
    plain = pc.utf8_trim(etags, '"')
    columns = [
        page.column("path").cast(pa.string()),
        page.column("size").cast(pa.int64()),
        pc.if_else(pc.starts_with(etags, "W/"), etags, plain),  # as `plain_etag`
        _named_times(page.column("last_modified").cast(TIME_TYPE)),
    ]
    return pa.table(columns, schema=LISTING_SCHEMA)


# -- local files -----------------------------------------------------------------------------------


def _list_files(storage: LocalFiles, folder: str, descends: Descends) -> ObjectListing:
    root = storage.path.rstrip("/")
    paths: list[str] = []
    statuses: list[os.stat_result] = []
    for path, status in _walk(root, folder.rstrip("/"), descends):
        paths.append(path)
        statuses.append(status)
    columns = [
        _texts(paths, root),
        pa.array([status.st_size for status in statuses], pa.int64()),
        pa.array([etag_of(status) for status in statuses], pa.string()),
        pa.array([status.st_mtime_ns // 1000 for status in statuses], pa.int64()).cast(TIME_TYPE),
    ]
    return ObjectListing(pa.table(columns, schema=LISTING_SCHEMA), 0)


def _texts(paths: list[str], root: str) -> pa.Array:
    try:
        return pa.array(paths, pa.string())
    except UnicodeEncodeError as error:
        raise StorageError(
            f"a file below {root} has a name that is not UTF-8: {error.object!r}; rename it",
            kind=ErrorKind.IO,
        ) from error


def _walk(root: str, folder: str, descends: Descends) -> Iterator[tuple[str, os.stat_result]]:
    pending = [folder]
    linked: set[str] = set()
    while pending:
        inside = pending.pop()
        for entry in scan_folder(f"{root}/{inside}"):
            path = f"{inside}/{entry.name}" if inside else entry.name
            if not entry.is_dir():
                yield from _state(path, entry)
            elif descends(path) and not (entry.is_symlink() and _is_loop(entry, linked)):
                pending.append(path)


def _is_loop(entry: os.DirEntry[str], linked: set[str]) -> bool:
    """Tell whether a link leads to where it came from, or where another led before."""
    target = Path(entry.path).resolve()
    is_loop = str(target) in linked or Path(entry.path).parent.resolve().is_relative_to(target)
    linked.add(str(target))
    return is_loop


def _state(path: str, entry: os.DirEntry[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a file; nothing for what is none, or gone since its folder was read."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode):
        yield path, status
