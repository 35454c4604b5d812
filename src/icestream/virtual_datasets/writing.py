"""A virtual dataset, written to a group of a session."""

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
import zarr
from virtualizarr.manifests import ManifestArray
from xarray import Dataset, Variable
from xarray.backends.writers import get_writable_zarr_store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata.v3 import ArrayV3Metadata

from icestream.errors import (
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
)
from icestream.model.chunk_tables import UInt32
from icestream.model.locations import SCHEME
from icestream.model.nodes import ArrayNode, GroupNode, Node
from icestream.model.paths import ROOT, absolute
from icestream.parsers.manifest_columns import ManifestColumns
from icestream.repository.session import ForkSession, Session
from icestream.virtual_datasets.array_metadata import (
    check_agreement,
    chunk_shape,
    document_of,
    encoded_attributes,
    metadata_of,
    stored_metadata,
)
from icestream.virtual_datasets.drafts import draft_of
from icestream.virtual_datasets.placements import Placement
from icestream.virtual_datasets.recorded_checksums import (
    ChecksumChoice,
    check_choice,
    checksum_columns,
)
from icestream.xarray import Region, to_icestream
from icestream.zarr_store.checksums import Checksum, ChecksumColumn
from icestream.zarr_store.store import IcestreamStore

_INLINED_AT_ONCE = 16


def write_virtual_dataset(  # noqa: PLR0913  each says something of its own
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

    Variables that are manifest arrays become references to the files they were found in. Chunks
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
        checksums: What is recorded of each file, so that later changes are noticed: its ETag or the
            time of its last change, which costs a request per file at most; one time for all files,
            best taken before they were opened; or nothing.
        validate_containers: Refuse locations that no virtual chunk container covers.

    Raises:
        AccessError: A checksum needs a file that the repository was not opened for, see
            `authorize_virtual_chunk_access`.
        AlreadyExistsError: A variable is there, and neither `append_dim` nor `region` is given.
        InvalidInputError: A variable does not fit to what is there, or a location is invalid or not
            covered by a container.
        NodeNotFoundError: What is to be added to is not there.
        StorageError: A file is gone, or its store does not tell what is to be recorded.
    """
    session = _session_of(store)
    _check_arguments(vds, append_dim, region)
    check_choice(checksums)
    target = _Destination(session, absolute(group or ROOT), Placement(append_dim))
    is_virtual = {name: _is_virtual(variable) for name, variable in vds.variables.items()}
    loaded = [target.path_of(name) for name in vds.variables if not is_virtual[name]]
    with draft_of(session, loaded) as draft:
        if region is not None:
            vds, target = _settled_region(vds, target, draft, region)
        plans = target.plans(vds, _checked_protocol(protocol))
        recorded = _recorded(plans, session, checksums, validate=validate_containers)
        attributes = target.attributes(vds)
        _write_loaded(vds.drop_vars([plan.name for plan in plans]), target, draft)
        for plan, checksum in zip(plans, recorded, strict=True):
            plan.write(draft, checksum, validate_containers=validate_containers)
        if region is None:
            zarr.open_group(draft.store, path=target.group, mode="r+").attrs.put(attributes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """One virtual variable, and the chunks of its array that it becomes."""

    name: str
    path: str
    metadata: ArrayV3Metadata
    """Of the array, when the variable is in it."""
    start: tuple[int, ...]
    """Index of the first chunk."""
    columns: ManifestColumns
    stale: UInt32 | None = None
    """Chunks that are there and must go, because the variable has none in their place."""

    def write(
        self,
        draft: ForkSession,
        checksum: Checksum | ChecksumColumn | None,
        *,
        validate_containers: bool,
    ) -> None:
        """Create or resize the array, and set its chunks."""
        key = self.path.strip("/")
        draft.store.set_sync(f"{key}/zarr.json", document_of(self.metadata))
        if self.stale is not None and len(self.stale):
            draft._copy.delete_chunks(self.path, self.stale)  # noqa: SLF001  an adapter
        if len(self.columns.distinct_locations):
            draft.store.set_virtual_refs_arr(
                self.path,
                self.columns.grid,
                self.columns.locations,
                self.columns.offsets,
                self.columns.lengths,
                validate_containers=validate_containers,
                arr_offset=self.start,
                checksum=checksum,
            )
        self._write_inlined(draft.store)

    def _write_inlined(self, store: IcestreamStore) -> None:
        new_buffer = default_buffer_prototype().buffer.from_bytes

        def write_one(index: tuple[int, ...]) -> None:
            shifted = (i + first for i, first in zip(index, self.start, strict=True))
            key = "/".join([self.path.strip("/"), "c", *map(str, shifted)])
            store.set_sync(key, new_buffer(self.columns.inlined[index]))

        if self.columns.inlined:
            with ThreadPoolExecutor(_INLINED_AT_ONCE) as pool:
                list(pool.map(write_one, self.columns.inlined))


@dataclass(frozen=True, slots=True)
class _Destination:
    """The group that is written to."""

    session: Session
    group: str
    placement: Placement

    def path_of(self, name: Hashable) -> str:
        """Return the path of the array of a variable."""
        return absolute(f"{self.group}/{name}")

    def find(self, path: str) -> Node | None:
        """Return the node at a path, as it is before anything is written."""
        return self.session._copy.nodes.find(path)  # noqa: SLF001  an adapter

    def plans(self, vds: Dataset, protocol: str | None) -> list[_Plan]:
        """Return what becomes of the virtual variables; faults of all variables are found here."""
        for name, variable in vds.variables.items():
            path = self.path_of(name)
            self.placement.expect(str(name), variable.dims, self.find(path), path)
        return [
            self._plan(str(name), variable, protocol)
            for name, variable in vds.variables.items()
            if _is_virtual(variable)
        ]

    def _plan(self, name: str, variable: Variable, protocol: str | None) -> _Plan:
        path = self.path_of(name)
        metadata = metadata_of(name, variable)
        columns = ManifestColumns.of(variable.data.manifest, protocol)
        node = self.find(path)
        if not isinstance(node, ArrayNode):
            return _Plan(name, path, metadata, (0,) * variable.ndim, columns)
        stored = stored_metadata(node)
        check_agreement(name, metadata, stored)
        box = self.placement.box(
            name, variable.dims, (metadata.shape, stored.shape), chunk_shape(stored)
        )
        there = self.session._copy.table(node).index if columns.missing().any() else None  # noqa: SLF001  an adapter
        stale = None if there is None else columns.missing_of(there, box.start)
        return _Plan(name, path, replace(stored, shape=box.shape), box.start, columns, stale)

    def attributes(self, vds: Dataset) -> dict[str, Any]:
        """Return the attributes that the group gets: those it has, and those of the dataset."""
        node = self.find(self.group)
        found = {} if node is None else json.loads(node.user_data).get("attributes", {})
        words = f"{found.get('coordinates', '')}".split()
        # xarray reads names that are separated by spaces: one with a space inside cannot be told
        words += [str(name) for name in vds.coords if " " not in str(name)]
        coordinates = {"coordinates": " ".join(dict.fromkeys(words))} if words else {}
        return {**found, **encoded_attributes(vds.attrs), **coordinates}


def _is_virtual(variable: Variable) -> bool:
    return isinstance(variable._data, ManifestArray)  # noqa: SLF001  `data` would load lazy ones


def _session_of(store: IcestreamStore) -> Session:
    if not isinstance(store, IcestreamStore):
        raise InvalidInputError(
            f"{store!r} is not the store of a session; use repo.writable_session(branch).store"
        )
    session: Session = store.session
    if store.read_only:
        raise ReadOnlyError(
            "the store is read-only; use repo.writable_session(branch).store",
            kind=ErrorKind.READ_ONLY_STORE,
        )
    session._copy.check_can_edit()  # noqa: SLF001  an adapter
    return session


def _check_arguments(vds: Dataset, append_dim: Hashable | None, region: Region) -> None:
    if not isinstance(vds, Dataset):
        raise InvalidInputError(f"{type(vds)} is not an xarray Dataset; use to_dataset()")
    if append_dim is not None and region is not None:
        raise InvalidInputError("give append_dim or region, not both")
    if append_dim is not None and append_dim not in vds.dims:
        raise InvalidInputError(
            f"append_dim {append_dim!r} is not a dimension of the dataset, which has "
            f"{list(vds.dims)}"
        )


def _checked_protocol(protocol: str | None) -> str | None:
    if protocol is None:
        return None
    scheme = protocol.removesuffix("://")
    if not re.fullmatch(SCHEME, scheme):
        raise InvalidInputError(f"protocol is {protocol!r}; give the scheme of URLs, like 'modela'")
    return scheme


def _settled_region(
    vds: Dataset, target: _Destination, draft: ForkSession, region: Region
) -> tuple[Dataset, _Destination]:
    """Return what of the dataset is written, and where to, in the way of xarray's to_zarr."""
    if not isinstance(target.find(target.group), GroupNode):
        raise NodeNotFoundError(f"there is no group at {target.group} that has a region")
    with _xarray_faults("the region does not fit"):
        opened = get_writable_zarr_store(
            draft.store,
            group=_xarray_group(target.group),
            consolidated=False,
            region=dict(region) if isinstance(region, Mapping) else region,
            zarr_format=3,
        )
        written = opened._validate_and_autodetect_region(vds)  # noqa: SLF001  as to_zarr does
    slices = cast("dict[str, slice]", opened._write_region)  # noqa: SLF001  as to_zarr does
    return written, replace(target, placement=Placement(region=slices))


def _recorded(
    plans: Sequence[_Plan], session: Session, choice: ChecksumChoice, *, validate: bool
) -> list[Checksum | ChecksumColumn | None]:
    """Return the checksums of all references; faults of locations are found before any request."""
    reader = session._copy.context.reader  # noqa: SLF001  an adapter
    for plan in plans:
        locations = pa.chunked_array([plan.columns.distinct_locations])
        reader.containers.stored_texts(locations, validate=validate)
    return checksum_columns([plan.columns for plan in plans], choice, reader.resolve)


def _write_loaded(loaded: Dataset, target: _Destination, draft: ForkSession) -> None:
    """Create the group, and write the variables that are no references."""
    if target.placement.region is None:
        zarr.open_group(draft.store, path=target.group, mode="a", zarr_format=3)
    if not loaded.variables:
        return
    loaded.attrs = {}  # those of the group are written at the end
    append_dim, region = target.placement.append_dim, target.placement.region
    slices = {dim: part for dim, part in (region or {}).items() if dim in loaded.dims}
    with _xarray_faults("the loaded variables cannot be written"):
        to_icestream(
            loaded,
            draft,
            group=_xarray_group(target.group),
            mode="a" if region is None else "r+",
            append_dim=append_dim if append_dim in loaded.dims else None,
            region=slices or None,
        )


def _xarray_group(path: str) -> str | None:
    return path.strip("/") or None


@contextmanager
def _xarray_faults(what: str) -> Iterator[None]:
    """Give faults that xarray finds in its input the class of all others."""
    try:
        yield
    except IcestreamError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{what}: {error}") from error
