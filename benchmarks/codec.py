"""The columnar codecs alone, beside what icechunk needs for the same references.

    python -m benchmarks.codec [references]

icechunk has no codec to call: its writing is set_virtual_refs_arr and commit to a local folder,
its reading is the columns of a fresh session's array_chunk_iterator.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import zarr

from benchmarks.cases import Inputs, Shape
from benchmarks.columns import CHECKSUM, ReferenceColumns, build_columns
from benchmarks.measuring import MEGABYTE, measured
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.codec.transaction_logs import decode_transaction_log, encode_transaction_log
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, dense_index
from icestream.model.ids import new_manifest_id, new_node_id, new_snapshot_id
from icestream.model.manifests import LocationCompression
from icestream.model.text_pools import encode_texts
from icestream.model.transaction_logs import TransactionLog

_HEAD = f"{'step':38}{'cpu s':>8}{'wall s':>8}{'peak MB':>9}{'file MB':>9}"


def main(references: int) -> None:
    """Print one table per shape of data."""
    _warm_up()
    for shape in Shape:
        columns = build_columns(references, shape, Inputs.ARROW)
        print(f"\n{references} references, {shape} shape\n{_HEAD}")
        for row in _rows(columns):
            print(row)


def _warm_up() -> None:
    """Let both sides import and allocate what they do once."""
    for _ in _rows(build_columns(2_000, Shape.OBJECT, Inputs.ARROW)):
        pass


def _rows(columns: ReferenceColumns) -> Iterator[str]:
    table = _table_of(columns)
    arrays = {new_node_id(): table}
    log = TransactionLog(id=new_snapshot_id(), updated_chunks={new_node_id(): table.index})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        yield _row("icechunk: set and commit", lambda: _write_peer(path, columns))
        (peer,) = (file.read_bytes() for file in (path / "manifests").iterdir())
        yield _row("icechunk: columns of the array", lambda: _read_peer(path))
    settings = LocationCompression()
    for level in (1, 3):
        label = f"manifest: encode, level {level}"
        yield _row(label, lambda level=level: _encode(arrays, level, None))
        yield _row(f"{label}, dictionary", lambda level=level: _encode(arrays, level, settings))
    own = _encode(arrays, 1, None)
    yield _row("manifest: decode", lambda: decode_manifest(own, name="own"))
    yield _row("manifest: decode, by icechunk", lambda: decode_manifest(peer, name="peer"))
    yield _row("log: encode", lambda: encode_transaction_log(log, spec=2))
    data = encode_transaction_log(log, spec=2)
    yield _row("log: decode", lambda: decode_transaction_log(data, name="log"))


def _encode(arrays: Any, level: int, locations: LocationCompression | None) -> bytes:
    return encode_manifest(new_manifest_id(), arrays, spec=2, level=level, locations=locations)


def _row(label: str, step: Callable[[], Any]) -> str:
    with measured() as cost:
        result = step()
    size = f"{len(result) / MEGABYTE:9.2f}" if isinstance(result, bytes) else f"{'':9}"
    return f"{label:38}{cost.cpu_s:8.3f}{cost.wall_s:8.3f}{cost.peak_mb:9.0f}{size}"


def _table_of(columns: ReferenceColumns) -> ChunkTable:
    n = len(columns.lengths)
    code, locations = encode_texts(columns.locations)
    return ChunkTable(
        index=dense_index(columns.grid_shape),
        kind=np.broadcast_to(np.uint8(ChunkType.virtual), n),
        byte_offset=columns.offsets,
        length=columns.lengths,
        location_code=code,
        locations=locations,
        last_modified=np.broadcast_to(np.uint32(CHECKSUM.timestamp()), n),
    )


def _write_peer(path: Path, columns: ReferenceColumns) -> bytes:
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    shape = columns.grid_shape
    zarr.create_array(session.store, name="a", shape=shape, chunks=(1, 1, 1), dtype="u1")
    session.store.set_virtual_refs_arr(
        "a",
        shape,
        columns.locations.to_pylist(),
        columns.offsets,
        columns.lengths,
        validate_containers=False,
        checksum=CHECKSUM,
    )
    session.commit("references")
    (manifest,) = (path / "manifests").iterdir()
    return manifest.read_bytes()


def _read_peer(path: Path) -> None:
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    session = repo.readonly_session("main")

    async def collect() -> list[Any]:
        return [batch async for batch in session.store.array_chunk_iterator("a")]

    asyncio.run(collect())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
