"""The locations of the virtual chunks of a session, manifest by manifest."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from icestream.model.chunk_tables import ChunkTable
from icestream.model.container_sets import ContainerSet
from icestream.model.distinct_texts import distinct
from icestream.model.location_forms import absolute_texts
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
    locations: list[str] = []
    for table in _tables(copy, listing.array_path):
        locations += _locations_in(table, listing)
    return locations


def iter_distinct_batches(copy: WorkingCopy, listing: Listing) -> Iterator[pa.Array]:
    """Yield locations in arrays, one per manifest; none is in two of them, nor in one twice."""
    seen: set[str] = set()
    last: pa.Array | None = None
    for table in _tables(copy, listing.array_path):
        _, texts = _selected(table, listing)
        if last is not None and len(texts):
            seen.update(_as_list(last))  # not earlier: the last one need not be remembered
        texts = _without(distinct(texts), seen)
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
    codes, texts = _selected(table, listing)
    if len(codes) == len(texts) and bool((codes[1:] > codes[:-1]).all()):
        return _as_list(texts)  # every chunk an object of its own, in order
    found: list[str] = texts.to_numpy(zero_copy_only=False)[codes].tolist()
    return found


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


def _without(texts: pa.Array, seen: AbstractSet[str]) -> pa.Array:
    if not seen:
        return texts
    return texts.filter(pa.array([text not in seen for text in _as_list(texts)], pa.bool_()))


def _as_list(texts: pa.Array) -> list[str]:
    """Return texts as a list, several times faster than Arrow's own way."""
    found: list[str] = texts.to_numpy(zero_copy_only=False).tolist()
    return found
