"""Chunk tables for tests: compared as mappings, and drawn at random."""

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from icestream.model.chunk_refs import ChunkRef, InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ChunkId

Refs = dict[tuple[int, ...], ChunkRef | None]


def refs_of(table: ChunkTable) -> Refs:
    """Return a table as a mapping, after checking its invariants."""
    n = len(table)
    columns = (table.kind, table.byte_offset, table.length, table.location_code, table.etag_code)
    assert all(column is None or column.shape == (n,) for column in columns)
    assert table.index.dtype == np.uint32
    indexes = [tuple(index) for index in table.index.tolist()]
    assert indexes == sorted(set(indexes))
    return {index: table.ref(row) for row, index in enumerate(indexes)}


def virtual_table(
    count: int, *, texts: int = 1, prefix: str = "s3://bucket/some/folder/"
) -> ChunkTable:
    """Return virtual references, spread over a number of locations."""
    refs: Refs = {
        (i,): VirtualRef(f"{prefix}{i * texts // count:06d}.nc", 100 * i, 100) for i in range(count)
    }
    return ChunkTable.from_refs(refs, 1)


_texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
_u64 = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))

inline_refs = st.binary(max_size=40).map(InlineRef)
native_refs = st.builds(
    NativeRef, st.binary(min_size=12, max_size=12).map(ChunkId), byte_offset=_u64, length=_u64
)
virtual_refs = st.builds(
    VirtualRef,
    st.one_of(st.sampled_from(["s3://b/one", "s3://b/two", "file:///ü"]), _texts),
    byte_offset=_u64,
    length=_u64,
    etag=st.one_of(st.none(), st.sampled_from(["", "etag-1"]), _texts),
    last_modified=st.one_of(st.just(0), st.integers(0, 2**32 - 1)),
)


@st.composite
def refs(draw: st.DrawFn, *, rank: int | None = None, deletions: bool = False) -> Refs:
    """Draw references of one array, of some kinds only or of all."""
    rank = draw(st.integers(0, 3)) if rank is None else rank
    kinds: list[st.SearchStrategy[ChunkRef | None]] = [inline_refs, native_refs, virtual_refs]
    if deletions:
        kinds.append(st.none())
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=len(kinds)))
    coordinate = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))
    indexes = st.tuples(*[coordinate] * rank)
    found: Mapping[tuple[int, ...], ChunkRef | None] = draw(
        st.dictionaries(indexes, st.one_of(chosen), max_size=12)
    )
    return dict(found)


@st.composite
def tables(draw: st.DrawFn, *, rank: int | None = None, deletions: bool = False) -> ChunkTable:
    """Draw a table."""
    rank = draw(st.integers(0, 3)) if rank is None else rank
    return ChunkTable.from_refs(draw(refs(rank=rank, deletions=deletions)), rank)
