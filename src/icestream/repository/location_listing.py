"""The locations of the virtual chunks of a session, manifest by manifest."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from icestream.model.chunk_tables import ChunkTable
from icestream.model.container_sets import ContainerSet
from icestream.model.distinct_texts import distinct
from icestream.model.location_forms import absolute_texts, has_relative
from icestream.model.location_pools import as_texts, canonical_texts, covered, spelled_texts
from icestream.model.nodes import ArrayNode
from icestream.model.paths import absolute
from icestream.model.text_pools import Int32
from icestream.repository.chunk_index import committed_tables
from icestream.repository.reference_census import uses_per_text
from icestream.repository.working_copy import WorkingCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which locations are listed, and how."""

    containers: ContainerSet
    prefix: str | None = None
    """Only the object of this name, or what is below it."""
    array_path: str | None = None
    """Only those of this array."""
    stored: bool = False
    """As they are stored, not made absolute."""


def all_locations(copy: WorkingCopy, *, stored: bool = False) -> list[str]:
    """Return the location of every virtual chunk of a session, one per chunk."""
    return list_locations(copy, Listing(containers=copy.context.reader.containers, stored=stored))


def stream_locations(
    copy: WorkingCopy,
    *,
    prefix: str | None = None,
    array_path: str | None = None,
    distinct: bool = True,
    stored: bool = False,
) -> Iterator[str]:
    """Yield the locations of virtual chunks of a session, read manifest by manifest.

    Args:
        copy: What the session works on.
        prefix: Only the object of this name, or what is below it.
        array_path: Only those of this array.
        distinct: Each location once, or once per chunk.
        stored: As they are stored, not made absolute.
    """
    listing = Listing(
        containers=copy.context.reader.containers,
        prefix=prefix,
        array_path=array_path,
        stored=stored,
    )
    iterate = iter_distinct_locations if distinct else iter_locations
    return iterate(copy, listing)


def iter_locations(copy: WorkingCopy, listing: Listing) -> Iterator[str]:
    """Yield the location of every virtual chunk, one per chunk."""
    for table in _tables(copy, listing.array_path):
        yield from _locations_in(table, listing)


def list_locations(copy: WorkingCopy, listing: Listing) -> list[str]:
    """Return the location of every virtual chunk, one per chunk."""
    parts = [_locations_in(table, listing) for table in _tables(copy, listing.array_path)]
    parts = [part for part in parts if part]
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def stream_location_batches(
    copy: WorkingCopy,
    *,
    prefix: str | None = None,
    array_path: str | None = None,
    stored: bool = False,
) -> Iterator[pa.ChunkedArray]:
    """Yield the locations of virtual chunks, each once, as columns; see `stream_locations`."""
    listing = Listing(
        containers=copy.context.reader.containers,
        prefix=prefix,
        array_path=array_path,
        stored=stored,
    )
    return iter_distinct_batches(copy, listing)


def iter_distinct_batches(copy: WorkingCopy, listing: Listing) -> Iterator[pa.ChunkedArray]:
    """Yield locations in columns, one per manifest; none is in two of them, nor in one twice."""
    seen: set[str] = set()
    last: pa.ChunkedArray | None = None
    for table in _tables(copy, listing.array_path):
        texts = _texts_in(table, listing)
        if last is not None and len(texts):
            seen.update(_as_list(last))  # not earlier: the last one need not be remembered
        texts = _without(_as_column(distinct(texts)), seen)
        if len(texts):
            last = texts
            yield texts


def iter_distinct_locations(copy: WorkingCopy, listing: Listing) -> Iterator[str]:
    """Yield every location once, as soon as the manifest that has it is read."""
    for texts in iter_distinct_batches(copy, listing):
        yield from _as_list(texts)


def _tables(copy: WorkingCopy, array_path: str | None) -> Iterator[ChunkTable]:
    """Yield the references of the arrays of a session, one table per manifest."""
    arrays = (
        [copy.get_array(absolute(array_path))]
        if array_path is not None
        else [node for node in copy.nodes.nodes() if isinstance(node, ArrayNode)]
    )
    for array in arrays:
        edits = copy.changes.chunks.get(array.id)
        if edits is not None and len(edits):
            yield copy.table(array)
        else:
            yield from committed_tables(copy.context.assets, array)


def _locations_in(table: ChunkTable, listing: Listing) -> list[str]:
    if _is_listed_as_it_is(table, listing):
        return _as_list(table.locations)
    codes, texts = _selected(table, listing)
    found: list[str] = texts.to_numpy(zero_copy_only=False)[codes].tolist()
    return found


def _is_listed_as_it_is(table: ChunkTable, listing: Listing) -> bool:
    """Tell whether every chunk is an object of its own, in order, and the texts need no change."""
    codes = table.location_code
    return (
        codes is not None
        and _is_in_order(codes, len(table.locations))
        and _needs_no_change(table.locations, listing)
    )


def _texts_in(table: ChunkTable, listing: Listing) -> pa.Array | pa.ChunkedArray:
    """Return the texts of the virtual rows that are asked for; some may be equal."""
    codes, pool = table.location_code, table.locations
    if (
        codes is not None
        and (_is_in_order(codes, len(pool)) or bool((uses_per_text(codes, len(pool)) > 0).all()))
        and _needs_no_change(pool, listing)
    ):
        return pool  # as it is: putting its pieces together would copy it
    return _selected(table, listing)[1]


def _is_in_order(codes: Int32, pool_size: int) -> bool:
    """Tell whether there is one row for each text, in the order of the texts."""
    if not 0 < len(codes) == pool_size:
        return False
    return bool(codes[0] == 0) and bool((codes[1:] > codes[:-1]).all())


def _needs_no_change(pool: pa.ChunkedArray, listing: Listing) -> bool:
    is_absolute = listing.stored or not listing.containers.named or not has_relative(pool)
    return listing.prefix is None and is_absolute


def _selected(table: ChunkTable, listing: Listing) -> tuple[Int32, pa.Array]:
    """Return codes into the texts of the virtual rows that are asked for."""
    if table.location_code is None:
        return np.empty(0, np.int32), pa.array([], pa.large_string())
    pool = as_texts(table.locations)
    wanted = uses_per_text(table.location_code, len(pool)) > 0
    texts = pool if listing.stored else absolute_texts(pool, listing.containers)
    if listing.prefix is not None:
        canonical, _ = canonical_texts(spelled_texts(absolute_texts(pool, listing.containers)))
        wanted &= covered(listing.containers.expand(listing.prefix), canonical)
    codes = table.location_code
    if wanted.all():
        return codes if bool((codes >= 0).all()) else codes[codes >= 0], texts
    # the last entry is for -1, the code of rows that are not virtual
    renamed = np.append(np.where(wanted, np.cumsum(wanted) - 1, -1), -1)[codes]
    return renamed[renamed >= 0].astype(np.int32), texts.filter(pa.array(wanted))


def _without(texts: pa.ChunkedArray, seen: AbstractSet[str]) -> pa.ChunkedArray:
    if not seen:
        return texts
    return texts.filter(pa.array([text not in seen for text in _as_list(texts)], pa.bool_()))


def _as_column(texts: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])


def _as_list(texts: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return texts as a list, several times faster than Arrow's own way."""
    if isinstance(texts, pa.ChunkedArray):
        return list(chain.from_iterable(map(_as_list, texts.chunks)))
    found: list[str] = texts.to_numpy(zero_copy_only=False).tolist()
    return found
