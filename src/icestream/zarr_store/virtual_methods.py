"""The methods of a zarr store that set and list references to foreign objects."""

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, SessionStateError
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.containers import VirtualChunkSpec
from icestream.model.paths import absolute
from icestream.virtual.fetcher import name_chunk
from icestream.zarr_store.checksums import Checksum, ChecksumColumn
from icestream.zarr_store.chunk_batches import ChunkBatch, iter_batches
from icestream.zarr_store.keys import MetadataKey, parse_key
from icestream.zarr_store.protocol import StoreSession
from icestream.zarr_store.virtual_refs import (
    LocationPolicy,
    grid_index,
    table_of_columns,
    table_of_specs,
    virtual_ref,
)


def _awaitable[**P, R](method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async twin of a method that only touches memory: nothing is worth a thread."""

    @functools.wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return method(*args, **kwargs)

    twin.__name__ = f"{method.__name__}_async"
    twin.__qualname__ = f"{method.__qualname__}_async"
    twin.__doc__ = f"Do what `{method.__name__}` does."
    return twin


class VirtualMethods(ABC):
    """Setting and listing references to foreign objects."""

    _nodes: StoreSession

    @abstractmethod
    def _check_writable(self) -> None:
        """Refuse to write through a store that only reads."""

    def set_virtual_ref(
        self,
        key: str,
        location: str,
        offset: int,
        length: int,
        validate_containers: bool = True,
        checksum: Checksum | None = None,
        *,
        validate_container: bool | None = None,
        relative: bool | None = None,
    ) -> None:
        """Let a chunk be a range of a foreign object.

        Args:
            key: The key of the chunk, such as `path/c/0/0`.
            location: The URL of the object.
            offset: First byte of the chunk in the object.
            length: Bytes of the chunk.
            validate_containers: Refuse locations that no virtual chunk container covers.
            checksum: The ETag of the object, or the time (epoch seconds or aware datetime) after
                which it must not have changed.
            validate_container: What icechunk calls `validate_containers`.
            relative: Store the location relative to a container with a name (True), as it is
                (False), or relative where a stored container allows it (None).

        Raises:
            InvalidInputError: The chunk is outside the grid, or the reference makes no sense.
            NodeNotFoundError: There is no such array.
        """
        self._check_writable()
        parsed = parse_key(key)
        if isinstance(parsed, MetadataKey):
            raise SessionStateError(f"{key!r} is metadata, not a chunk; use `set` to write it")
        validate = validate_containers if validate_container is None else validate_container
        try:
            ref = virtual_ref(location, offset, length, checksum)
            pool = pa.chunked_array([[location]], pa.large_string())
            stored = self._nodes.stored_locations(pool, relative=relative, validate=validate)
        except IcestreamError as error:
            place = self._nodes.place_of(str(location))
            raise name_chunk(error, f"{key} to a part of {place}", "setting") from error.__cause__
        ref = replace(ref, location=stored[0].as_py())
        self._nodes.put_ref(parsed.path, parsed.coordinates, ref)

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: Sequence[VirtualChunkSpec],
        *,
        validate_containers: bool = True,
        relative: bool | None = None,
    ) -> None:
        """Let chunks of an array be ranges of foreign objects.

        All are set, or none: any fault raises. The icechunk package instead sets what it can and
        returns the indexes of the chunks whose location no container covers, which is easily
        overlooked. Of several specs for one chunk the last one counts.

        Raises:
            InvalidInputError: A chunk is outside the grid, a reference makes no sense, or no
                container covers a location.
            NodeNotFoundError: There is no such array.
        """
        self._check_writable()
        array = self._nodes.get_array(absolute(array_path))
        policy = self._location_policy(relative=relative, validate=validate_containers)
        self._put_virtual(array.path, table_of_specs(array, chunks, policy))

    def set_virtual_refs_arr(
        self,
        array_path: str,
        chunk_grid_shape: tuple[int, ...],
        locations: Sequence[str] | pa.Array | pa.ChunkedArray,
        offsets: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.uint64],
        *,
        validate_containers: bool = True,
        arr_offset: tuple[int, ...] | None = None,
        checksum: Checksum | ChecksumColumn | None = None,
        relative: bool | None = None,
    ) -> None:
        """Let a box of chunks be ranges of foreign objects, given as columns in C order.

        All are set, or none: any fault raises, where the icechunk package returns a list of
        failed chunks that is easily overlooked.

        Args:
            array_path: Path of the array.
            chunk_grid_shape: Chunks of the box, per dimension.
            locations: One URL per chunk: a list, or an Arrow array, which is faster, most of all
                dictionary-encoded. Chunks without one (empty or null) are left as they are.
            offsets: First byte of each chunk in its object.
            lengths: Bytes of each chunk.
            validate_containers: Refuse locations that no virtual chunk container covers.
            arr_offset: Index of the first chunk of the box; zeros by default.
            checksum: One ETag or time for all chunks, or a column of them: ETags, epoch seconds,
                or aware datetimes, null where there is none.
            relative: As in `set_virtual_ref`.

        Raises:
            InvalidInputError: The box does not fit the grid or the columns, a reference makes no
                sense, or no container covers a location.
            NodeNotFoundError: There is no such array.
        """
        self._check_writable()
        array = self._nodes.get_array(absolute(array_path))
        index = grid_index(array, chunk_grid_shape, arr_offset, len(locations))
        policy = self._location_policy(relative=relative, validate=validate_containers)
        self._put_virtual(
            array.path,
            table_of_columns(index, locations, offsets, lengths, policy=policy, checksum=checksum),
        )

    def _location_policy(self, *, relative: bool | None, validate: bool) -> LocationPolicy:
        nodes = self._nodes
        return LocationPolicy(
            functools.partial(nodes.stored_locations, relative=relative, validate=validate),
            functools.partial(nodes.refused_locations, relative=relative, validate=validate),
        )

    def _put_virtual(self, path: str, table: ChunkTable) -> None:
        if len(table):
            self._nodes.put_table(path, table)

    set_virtual_ref_async = _awaitable(set_virtual_ref)
    set_virtual_refs_async = _awaitable(set_virtual_refs)
    set_virtual_refs_arr_async = _awaitable(set_virtual_refs_arr)

    async def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> AsyncIterator[ChunkBatch]:
        """Yield the chunk references of an array, of all kinds, in batches of columns.

        Locations are absolute. A batch unpacks into the six columns that icechunk gives; `etags`
        and `last_modified` are attributes of it.
        """
        if batch_size < 1:
            raise InvalidInputError(
                f"batch_size is {batch_size}; give at least 1", kind=ErrorKind.INVALID_ARGUMENT
            )
        table = self._nodes.table(self._nodes.get_array(absolute(array_path)))
        locations = self._nodes.absolute_locations(table.locations)
        table = replace_columns(table, locations=locations)
        for batch in iter_batches(table, batch_size):
            yield batch
