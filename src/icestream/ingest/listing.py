"""The files of an archive as its stores list them: one row per file, in columns."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError, NotFoundError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.source_access import SourceAccess
from icestream.ingest.source_patterns import (
    SourcePattern,
    excluding_expression,
    needs_quotes,
    parse_source,
    quoted_key,
)
from icestream.parsers.formats import format_of_folder
from icestream.storage.column_listing import TIME_TYPE, ObjectListing, list_columns, listing_of

FILE_SCHEMA = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("etag", pa.string()),
        pa.field("last_modified", TIME_TYPE),
    ]
)
"""Of a listing; `url` is sorted and without doubles."""

_FOLDER_FILE = r"(?i)^(?P<folder>(?:.*?/)?[^/]+\.(?:zarr|parq|parquet))/"
"""Folders that are read as one file; `format_of_folder` knows the same names."""
_HIDDEN = r"(?:^|/)\."
_MARKER = r"_\$folder\$$"
"""What some programs put where a folder is to appear."""
_EXTENSION = r"\.[^/]*$"
"""Empty objects without one stand for folders too: clients take the slash off their names."""


@dataclass(frozen=True, slots=True, eq=False)
class FileListing:
    """All files of an archive at one moment."""

    table: pa.Table
    """Columns `url`, `size`, `etag`, `last_modified`, sorted by `url`."""
    num_requests: int
    """What it took; local folders count nothing."""

    def __len__(self) -> int:
        return len(self.table)


def list_sources(archive: Archive, access: SourceAccess | None = None) -> FileListing:
    """List the files of an archive.

    Only the longest folder without wildcards of each source is listed. Hidden files are left out,
    unless a source names them, and so is what only stands for a folder. A folder of a format that
    is one, such as Zarr, is one file.

    Args:
        archive: Its `sources` and `exclude` count.
        access: How to reach them; by default with what the environment offers.

    Raises:
        NotFoundError: A source has no files.
        InvalidInputError: A source has wildcards on a web server, which has no listings.
        AccessError: A source may not be read.
        StorageError: A store fails.
    """
    access = access or SourceAccess.of(archive)
    patterns = [parse_source(source) for source in archive.sources]
    listings = [_list_source(pattern, access) for pattern in patterns]
    excluding = [excluding_expression(text) for text in archive.exclude]
    tables = [
        _files(pattern, _without(listing.table, pattern, excluding))
        for pattern, listing in zip(patterns, listings, strict=True)
    ]
    for pattern, table in zip(patterns, tables, strict=True):
        if not len(table):
            raise _no_files(pattern, is_excluded=bool(archive.exclude))
    return FileListing(_distinct(pa.concat_tables(tables)), sum(x.num_requests for x in listings))


# -- one source ------------------------------------------------------------------------------------


def _list_source(pattern: SourcePattern, access: SourceAccess) -> ObjectListing:
    """Return the objects that a source means, by their keys."""
    if not pattern.is_single:
        _refuse_web(pattern)
        return _list_folder(pattern, access)
    if pattern.key and not pattern.key.endswith("/") and format_of_folder(pattern.key) is None:
        storage, key = access.find_object(pattern.root + _quoted(pattern, pattern.key))
        try:
            return listing_of(storage.head(key))
        except NotFoundError:
            if pattern.is_web:
                raise
    _refuse_web(pattern)
    folder = f"{pattern.key.rstrip('/')}/" if pattern.key.strip("/") else ""
    listing = _listed_below(pattern, folder, access, lambda _: True)
    num_requests = listing.num_requests + (not pattern.is_local)
    return ObjectListing(_plain(listing.table, pattern, folder), num_requests)


def _list_folder(pattern: SourcePattern, access: SourceAccess) -> ObjectListing:
    depth = pattern.depth

    def descends(path: str) -> bool:
        return depth is None or path.count("/") < depth or _is_in_folder_file(f"{path}/")

    listing = _listed_below(pattern, pattern.folder, access, descends)
    table = _plain(listing.table, pattern, pattern.folder)
    matches = pc.match_substring_regex(table.column("path"), pattern.expression)
    return ObjectListing(table.filter(matches), listing.num_requests)


def _listed_below(
    pattern: SourcePattern, folder: str, access: SourceAccess, descends: Callable[[str], bool]
) -> ObjectListing:
    # any name will do: the client is that of the whole bucket
    storage, _ = access.find_object(f"{pattern.root}{_quoted(pattern, folder)}x")
    return list_columns(storage, folder, descends=descends)


def _plain(table: pa.Table, pattern: SourcePattern, folder: str) -> pa.Table:
    """Return a listing with folders that are files as such, and without what is no file."""
    table = _folded(table.filter(pc.starts_with(table.column("path"), folder)))
    paths = table.column("path")
    is_file = pc.invert(pc.match_substring_regex(paths, _MARKER))
    if not pattern.is_local:
        is_named = pc.match_substring_regex(paths, _EXTENSION)
        is_file = pc.and_(is_file, pc.or_(is_named, pc.greater(table.column("size"), 0)))
    if not pattern.shows_hidden:
        below = pc.utf8_slice_codeunits(paths, len(folder))
        is_file = pc.and_(is_file, pc.invert(pc.match_substring_regex(below, _HIDDEN)))
    return _without_markers(table.filter(is_file))


def _without_markers(table: pa.Table) -> pa.Table:
    """Leave out empty objects that have others below them, as if they were folders."""
    is_empty = pc.equal(table.column("size"), 0)
    if not pc.any(is_empty).as_py():
        return table
    paths = np.sort(table.column("path").to_numpy(zero_copy_only=False).astype(np.str_))
    empty = table.filter(is_empty).column("path").to_pylist()
    inside = np.searchsorted(paths, [f"{path}/" for path in empty])
    markers = [
        path
        for path, row in zip(empty, inside.tolist(), strict=True)
        if row < len(paths) and paths[row].startswith(f"{path}/")
    ]
    if not markers:
        return table
    is_marker = pc.is_in(table.column("path"), pa.array(markers, pa.string()))
    return table.filter(pc.invert(pc.and_(is_empty, is_marker)))


# -- folders that are files ------------------------------------------------------------------------


def _is_in_folder_file(path: str) -> bool:
    return any(format_of_folder(part) is not None for part in path.split("/")[:-1])


def _folded(table: pa.Table) -> pa.Table:
    """Return a listing in which the objects of a folder that is one file are one row."""
    folders = pc.struct_field(pc.extract_regex(table.column("path"), _FOLDER_FILE), "folder")
    if folders.null_count == len(table):
        return table
    is_inside = pc.is_valid(folders)
    inside = table.filter(is_inside).append_column("folder", folders.filter(is_inside))
    inside = inside.sort_by([("folder", "ascending"), ("path", "ascending")])
    found = inside.group_by("folder", use_threads=False).aggregate(
        [("size", "sum"), ("last_modified", "max"), ("path", "count")]
    )
    counts = found.column("path_count").to_numpy()
    ends = np.cumsum(counts)
    digests = [
        _digest(inside.slice(start, stop - start))
        for start, stop in zip((ends - counts).tolist(), ends.tolist(), strict=True)
    ]
    columns = [
        found.column("folder"),
        found.column("size_sum"),
        pa.array(digests, pa.string()),
        found.column("last_modified_max"),
    ]
    rows = pa.table(columns, schema=table.schema)
    return pa.concat_tables([table.filter(pc.invert(is_inside)), rows])


def _digest(objects: pa.Table) -> str:
    """Return what changes when any object of a folder does."""
    times = objects.column("last_modified").cast(pa.int64()).cast(pa.string())
    etags = pc.coalesce(objects.column("etag"), times, "")
    sizes = objects.column("size").cast(pa.string())
    lines = pc.binary_join_element_wise(objects.column("path"), sizes, etags, "\t")
    text = "\n".join(lines.to_pylist())
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# -- all sources -----------------------------------------------------------------------------------


def _without(table: pa.Table, pattern: SourcePattern, excluding: list[tuple[str, str]]) -> pa.Table:
    expressions = [expression for root, expression in excluding if root in {"", pattern.root}]
    paths = table.column("path")
    flags = [pc.match_substring_regex(paths, expression) for expression in expressions]
    return table.filter(pc.invert(reduce(pc.or_, flags))) if flags else table


def _files(pattern: SourcePattern, table: pa.Table) -> pa.Table:
    paths = table.column("path").combine_chunks()
    odd = pc.match_substring_regex(paths, needs_quotes(local=pattern.is_local))
    if pc.any(odd).as_py():
        quoted = [_quoted(pattern, path) for path in paths.filter(odd).to_pylist()]
        paths = pc.replace_with_mask(paths, odd, pa.array(quoted, pa.string()))
    urls = pc.binary_join_element_wise(pa.scalar(pattern.root), paths, "")
    columns = [urls, *(table.column(name) for name in FILE_SCHEMA.names[1:])]
    return pa.table(columns, schema=FILE_SCHEMA)


def _distinct(table: pa.Table) -> pa.Table:
    table = table.sort_by("url").combine_chunks()
    urls = table.column("url")
    repeats = pc.equal(urls.slice(1), urls.slice(0, len(urls) - 1)).to_numpy()
    return table.filter(pa.array(np.concatenate([[True], ~repeats]))) if repeats.any() else table


def _quoted(pattern: SourcePattern, key: str) -> str:
    return quoted_key(key, local=pattern.is_local)


def _refuse_web(pattern: SourcePattern) -> None:
    if pattern.is_web:
        raise InvalidInputError(
            f"the source {pattern.text} is no single file, and web servers have no listings; name"
            " the files one by one, or use the address of their object store",
            kind=ErrorKind.INVALID_ARGUMENT,
        )


def _no_files(pattern: SourcePattern, *, is_excluded: bool) -> NotFoundError:
    hint = ", and what `exclude` leaves out" if is_excluded else ""
    return NotFoundError(
        f"the source {pattern.text} has no files: check its spelling{hint}",
        kind=ErrorKind.OBJECT_NOT_FOUND,
    )
