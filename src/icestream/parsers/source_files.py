"""One foreign file while it is scanned: where its bytes are, and which state of it is read."""

import io
import os
from collections.abc import Buffer, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Self

from icestream.errors import (
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    ObjectChangedError,
    SourceError,
)
from icestream.model.locations import split_location
from icestream.model.platforms import PLATFORM_OF_SCHEME, make_store
from icestream.parsers.read_tallies import ReadTally
from icestream.parsers.scanned_files import FileIdentity
from icestream.storage.containers import open_container
from icestream.storage.local_files import LocalFiles
from icestream.storage.protocol import ObjectInfo, Storage

type FindObject = Callable[[str], tuple[Storage, str]]
"""Finds the client that reads a URL, and the key of the object in it."""

type ChecksumChoice = Literal["auto", "etag", "last-modified"]
"""What references record of their file; the other where a store does not tell it.

"auto" is the ETag, and for local files the time of the last change: icechunk 2.3 finds every local
file changed that has an ETag recorded. A time does not tell two changes in one second apart.
"""

_EPOCH = datetime.fromtimestamp(0, UTC)
"""What is given as the time of change where a web server gives none."""
_SMALL_FILE = 1 << 21
_BLOCK = 1 << 17
_LONGEST_RUN = 1 << 23
_LISTED_AT_ONCE = 1000
"""Objects in one answer of a store."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file in the state that it had when it was opened; reads of any other state fail."""

    url: str
    storage: Storage
    key: str
    identity: FileIdentity
    find_object: FindObject
    """Finds this file, and others that it names."""
    is_folder: bool = False
    checksums: ChecksumChoice = "auto"
    tally: ReadTally = field(default_factory=ReadTally, repr=False, compare=False)
    """What was asked of stores so far."""
    _blocks: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)
    """What `RangedFile` has fetched."""

    @classmethod
    def open(cls, url: str, find_object: FindObject | None = None) -> Self:
        """Ask for the state of a file, in one request.

        Raises:
            NotFoundError: It is not there.
            StorageError: Its store fails or refuses.
        """
        url = absolute_url(url)
        find = find_object or find_with_environment
        storage, key = find(url)
        source = cls(url, storage, key, identity_of(storage.head(key)), find)
        source.tally.add(url)
        return source

    @classmethod
    def open_folder(cls, url: str, find_object: FindObject | None = None) -> Self:
        """Take a folder for a file: it has no state of its own, only what is in it."""
        url = absolute_url(url.rstrip("/"))
        find = find_object or find_with_environment
        storage, key = find(url)
        return cls(url, storage, key, FileIdentity(0), find, is_folder=True)

    @property
    def local_path(self) -> str | None:
        """The path of a file on this machine, which libraries open themselves."""
        backend = self.storage.backend
        if not isinstance(backend, LocalFiles):
            return None
        return f"{backend.path.rstrip('/')}/{self.key}"

    @property
    def checksum(self) -> tuple[str | None, int]:
        """What references to this file record: an ETag, or seconds of a time."""
        return checksum_of(self.url, self.identity, self.checksums)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.identity.size

    def read(self, start: int, stop: int) -> bytes:
        """Return a range of bytes.

        Raises:
            SourceError: The file was changed since it was opened.
            StorageError: Its store fails.
        """
        identity = self.identity
        etag = identity.etag if _is_strong(identity.etag) else None
        stop = min(stop, identity.size)
        if start >= stop:
            return b""
        try:
            data = self.storage.get_if_unchanged(
                self.key,
                (start, stop),
                etag=etag,
                not_after=None if etag else identity.last_modified,
            )
        except ObjectChangedError as error:
            raise self._changed() from error
        self.tally.add(self.url, len(data))
        return data

    def read_from(self, url: str, start: int, stop: int) -> bytes:
        """Return a range of bytes of this file, or of another that it names."""
        if url == self.url:
            return self.read(start, stop)
        storage, key = self.find_object(url)
        data = storage.get(key, (start, stop))
        self.tally.add(url, len(data))
        return data

    def read_below(self, name: str) -> bytes:
        """Return a file in this folder."""
        data = self.storage.get(f"{self.key}/{name}")
        self.tally.add(self.url, len(data))
        return data

    def list_below(self) -> Iterator[tuple[str, FileIdentity]]:
        """Yield the files in this folder, by URL."""
        folder = f"{self.key}/"
        for number, info in enumerate(self.storage.list(folder)):
            if number % _LISTED_AT_ONCE == 0:
                self.tally.add(self.url)
            yield f"{self.url}/{info.path.removeprefix(folder)}", identity_of(info)

    def ask(self, url: str) -> FileIdentity | IcestreamError:
        """Return the state of another file that this one names, or why it is not known."""
        try:
            storage, key = self.find_object(url)
            self.tally.add(url)
            return identity_of(storage.head(key))
        except IcestreamError as error:
            return error

    def check_unchanged(self) -> None:
        """Make sure that what a library has read by itself was this state of the file.

        Raises:
            SourceError: The file was changed since it was opened.
        """
        self.tally.add(self.url)
        if identity_of(self.storage.head(self.key)) != self.identity:
            raise self._changed()

    def reader(self) -> io.BufferedIOBase:
        """Return the file as a Python file object; what it fetches is kept with the source."""
        path = self.local_path
        return io.BufferedReader(RangedFile(self)) if path is None else Path(path).open("rb")

    def head(self, size: int) -> bytes:
        """Return the first bytes, or all if there are less."""
        with self.reader() as file:
            return file.read(size)

    def _changed(self) -> SourceError:
        return SourceError(
            f"{self.url} was changed while it was read; scan it again",
            kind=ErrorKind.VIRTUAL_CHUNK_MODIFIED,
        )


class RangedFile(io.RawIOBase):
    """A file in an object store, read in blocks that are kept.

    A small file is fetched whole. Reads that follow each other fetch more and more at once, single
    ones little: headers are spread over files in pieces of some kilobytes.
    """

    def __init__(self, source: SourceFile) -> None:
        super().__init__()
        self._source = source
        self._position = 0
        self._blocks = source._blocks  # noqa: SLF001  of the same module; kept while it is open
        self._run = _SMALL_FILE if source.size <= _SMALL_FILE else _BLOCK
        self._next_block = 0

    def readable(self) -> bool:
        """Say yes."""
        return True

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}
        self._position = start[whence] + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a buffer, all of it if the file is long enough."""
        view = memoryview(buffer).cast("B")
        start = self._position
        stop = min(start + len(view), self._source.size)
        while self._position < stop:
            number, skipped = divmod(self._position, _BLOCK)
            part = self._block(number, stop)[skipped : skipped + stop - self._position]
            at = self._position - start
            view[at : at + len(part)] = part
            self._position += len(part)
        return max(stop - start, 0)

    def _block(self, number: int, needed: int) -> bytes:
        if number not in self._blocks:
            self._fetch(number, needed)
        return self._blocks[number]

    def _fetch(self, number: int, needed: int) -> None:
        follows = number == self._next_block and number > 0
        self._run = min(self._run * 2, _LONGEST_RUN) if follows else self._run
        first = number * _BLOCK
        wanted = max(self._run if follows or not self._blocks else _BLOCK, needed - first)
        blocks = -(-wanted // _BLOCK)
        content = self._source.read(first, first + blocks * _BLOCK)
        for i in range(-(-len(content) // _BLOCK)):
            self._blocks[number + i] = content[i * _BLOCK : (i + 1) * _BLOCK]
        self._next_block = number + blocks


def absolute_url(url: str) -> str:
    """Return the URL of a file; that of a local one may be given as a path."""
    if "://" in url:
        return url
    return Path(os.path.normpath(Path(url).absolute())).as_uri()


def find_with_environment(url: str) -> tuple[Storage, str]:
    """Find an object on the platform of its scheme, with what the environment offers.

    Raises:
        InvalidInputError: The scheme belongs to no platform.
    """
    address = split_location(url)
    platform = PLATFORM_OF_SCHEME.get(address.scheme)
    if platform is None:
        raise InvalidInputError(
            f"{url} has the scheme {address.scheme!r}, which belongs to no platform; say where it "
            "is with a virtual chunk container",
            kind=ErrorKind.CANNOT_PARSE_URL,
        )
    storage = open_container(make_store(platform), bucket=address.bucket, scheme=address.scheme)
    return storage, address.key


def checksum_of(
    url: str, identity: FileIdentity, choice: ChecksumChoice = "auto"
) -> tuple[str | None, int]:
    """Return what references record of a file: its ETag, or the seconds of its last change."""
    is_local = url.startswith("file:")
    prefers_time = choice == "last-modified" or (choice == "auto" and is_local)
    has_etag = _is_strong(identity.etag) and not prefers_time
    if has_etag or identity.last_modified is None:
        return identity.etag, 0
    # the next full second: icechunk compares with fractions, and would find the file changed
    return None, int(-((_EPOCH - identity.last_modified) // timedelta(seconds=1)))


def identity_of(info: ObjectInfo) -> FileIdentity:
    """Return what a store says about an object as the state of a file."""
    modified = None if info.last_modified == _EPOCH else info.last_modified
    return FileIdentity(info.size_bytes, info.version.etag, modified)


def _is_strong(etag: str | None) -> bool:
    return etag is not None and not etag.startswith("W/")
