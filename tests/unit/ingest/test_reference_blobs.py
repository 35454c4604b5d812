"""References on their way between executors."""

import numpy as np
from hypothesis import given
from tests.tables import refs_of, tables

from icestream.ingest.reference_blobs import decode_references, encode_references
from icestream.model.chunk_tables import ChunkTable, dense_index
from icestream.model.text_pools import encode_texts


@given(tables(deletions=True))
def test_a_table_comes_back_as_it_was(table: ChunkTable) -> None:
    again = decode_references(encode_references(table))

    assert refs_of(again) == refs_of(table)
    assert again.index.dtype == np.uint32
    assert again.rank == table.rank


def test_the_chunk_of_a_scalar_comes_back() -> None:
    table = ChunkTable.from_refs({(): None}, rank=0)

    assert decode_references(encode_references(table)).index.shape == (1, 0)


def test_a_location_is_there_once() -> None:
    n = 10_000
    url = "s3://a-bucket/with/a/long/name/of/some/file.nc"
    code, pool = encode_texts([url] * n)
    table = ChunkTable(
        index=dense_index((n,)),
        kind=np.broadcast_to(np.uint8(3), n),
        byte_offset=np.arange(n, dtype=np.uint64) * 1000,
        length=np.broadcast_to(np.uint64(1000), n),
        location_code=code,
        locations=pool,
    )

    blob = encode_references(table)

    assert blob.count(url.encode()) <= 1
    assert len(blob) < 20 * n
