"""Parsers of VirtualiZarr, and all that are called as they are: `(url, registry) -> store`."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from obspec_utils.registry import ObjectStoreRegistry
from obspec_utils.wrappers import RequestRecord, RequestTrace, TracingReadableStore
from virtualizarr.manifests import ManifestArray, ManifestGroup, ManifestStore
from zarr.core.buffer import default_buffer_prototype

from icestream.errors import ErrorKind, InvalidInputError
from icestream.parsers.file_contents import FileContents, Loading, Parser
from icestream.parsers.manifest_columns import ManifestColumns
from icestream.parsers.manifest_tables import add_arrays
from icestream.parsers.read_tallies import ReadTally
from icestream.parsers.source_files import FindObject, SourceFile
from icestream.storage.addresses import Purpose
from icestream.storage.local_files import LocalFiles
from icestream.storage.object_store import ObjectStorage
from icestream.storage.obstore_library import library
from icestream.storage.protocol import Storage

_COUNTED = "virtualizarr."
"""Parsers of others may hand the client to zarr, which takes no wrapped one."""

type VirtualizarrParser = Callable[[str, Any], ManifestStore]
"""What VirtualiZarr calls a parser."""


def adapted(parse: VirtualizarrParser) -> Parser:
    """Return a parser of VirtualiZarr as one that `scan_file` calls."""

    def scan(source: SourceFile, loading: Loading) -> FileContents:
        del loading  # values are read through the references
        counts = not source.is_folder and type(parse).__module__.startswith(_COUNTED)
        registry = Registry(source.find_object, source.tally if counts else None)
        store = parse(source.url, registry)
        if not isinstance(store, ManifestStore):
            raise InvalidInputError(
                f"the parser {parse!r} returned {type(store).__name__}; it must return a "
                "virtualizarr.manifests.ManifestStore"
            )
        return _contents(source, store._group)  # noqa: SLF001  the store shows it as bytes only

    return scan


class Registry(ObjectStoreRegistry):  # type: ignore[type-arg]  # its parameter has changed its bounds
    """The clients of icestream's storages, as VirtualiZarr asks for them."""

    def __init__(self, find_object: FindObject, tally: ReadTally | None = None) -> None:
        super().__init__()
        self._find_object = find_object
        self._tally = tally
        self._clients: dict[int, tuple[Storage, Any]] = {}

    def resolve(self, url: str) -> tuple[Any, str]:
        """Return the client of obstore that reads a URL, and the key of the object in it."""
        storage, key = self._find_object(url)
        known = self._clients.get(id(storage))
        if known is None:
            # the storage is kept too, so that no other takes its number
            client = client_of(storage)
            if self._tally is not None:
                client = _counted(client, self._tally, url)
            known = self._clients[id(storage)] = (storage, client)
        return known[1], key


def _counted(client: Any, tally: ReadTally, url: str) -> Any:
    """Return a client whose requests are counted."""

    def note(request: RequestRecord) -> None:
        tally.add(url, 0 if request.method == "head" else request.length)

    return TracingReadableStore(client, RequestTrace(), on_request=note)


def client_of(storage: Storage) -> Any:
    """Return a client of obstore that reads what a storage reads.

    Raises:
        InvalidInputError: There is none, because the storage is in memory.
    """
    backend = storage.backend
    if isinstance(backend, ObjectStorage):
        return backend.address.client(library(), Purpose.READ, backend.retry)
    if isinstance(backend, LocalFiles):
        return library().store.LocalStore(backend.path)
    raise InvalidInputError(
        f"{storage!r} has no client that other libraries could use", kind=ErrorKind.UNIMPLEMENTED
    )


def _contents(source: SourceFile, root: ManifestGroup) -> FileContents:
    contents = FileContents()
    found: dict[str, tuple[dict[str, Any], ManifestColumns]] = {}
    for path, member in _walk(root, "/"):
        if isinstance(member, ManifestGroup):
            contents.groups[path] = _document(member)["attributes"]
        else:
            found[path] = _document(member), ManifestColumns.of(member.manifest)
    add_arrays(contents, source, found)
    return contents


def _walk(group: ManifestGroup, path: str) -> Iterator[tuple[str, ManifestGroup | ManifestArray]]:
    yield path, group
    for name, member in group.items():
        below = f"{path.rstrip('/')}/{name}"
        if isinstance(member, ManifestGroup):
            yield from _walk(member, below)
        else:
            yield below, member


def _document(member: ManifestGroup | ManifestArray) -> dict[str, Any]:
    """Return what zarr.json says of a group or an array."""
    buffers = member.metadata.to_buffer_dict(default_buffer_prototype())
    document: dict[str, Any] = json.loads(buffers["zarr.json"].to_bytes())
    document.setdefault("attributes", {})
    if isinstance(member, ManifestArray):
        # parsers name chunks as their format does, and a repository has one way of its own
        separator = {"separator": "/"}
        document["chunk_key_encoding"] = {"name": "default", "configuration": separator}
    return document
