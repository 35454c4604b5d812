"""Manifests and transaction logs: everything survives, and no bytes can do harm."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.foreign_manifests import file_of, read_manifest
from tests.tables import refs_of, tables

from icestream.codec.header import FileType, decode_body
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.codec.transaction_logs import decode_transaction_log, encode_transaction_log
from icestream.errors import FormatError
from icestream.model.chunk_tables import ChunkTable, UInt32, overlay
from icestream.model.ids import ManifestId, NodeId, SnapshotId
from icestream.model.manifests import LocationCompression, Manifest
from icestream.model.transaction_logs import Move, TransactionLog

ID = ManifestId(b"manifest-id.")
EAGER = LocationCompression(min_num_chunks=1, max_training_samples=20, max_dictionary_bytes=256)

node_ids = st.binary(min_size=8, max_size=8).map(NodeId)
arrays = st.dictionaries(node_ids, tables(), max_size=4)
many_arrays = st.lists(tables(), min_size=1, max_size=4).flatmap(
    lambda few: st.dictionaries(node_ids, st.sampled_from(few), max_size=40)
)


# -- round trips ------------------------------------------------------------------------------


@given(arrays, st.sampled_from([1, 2]), st.sampled_from([None, EAGER]))
def test_manifests_survive(
    arrays: dict[NodeId, ChunkTable], spec: int, locations: LocationCompression | None
) -> None:
    data = encode_manifest(ID, arrays, spec=spec, locations=locations)

    manifest = decode_manifest(data, name="m", expected_id=ID)

    assert list(manifest.arrays) == sorted(arrays)
    for node_id, table in arrays.items():
        assert refs_of(manifest.arrays[node_id]) == refs_of(table)


@given(many_arrays, st.sampled_from([None, EAGER]))
def test_many_arrays_survive_twice(
    arrays: dict[NodeId, ChunkTable], locations: LocationCompression | None
) -> None:
    once = decode_manifest(encode_manifest(ID, arrays, spec=2, locations=locations), name="m")
    twice = decode_manifest(encode_manifest(ID, once.arrays, spec=2), name="m")

    expected = {node_id: refs_of(arrays[node_id]) for node_id in sorted(arrays)}
    for manifest in (once, twice):
        assert {i: refs_of(table) for i, table in manifest.arrays.items()} == expected
        assert manifest.num_refs == sum(map(len, expected.values()))


@given(st.one_of(arrays, many_arrays))
def test_an_independent_reader_accepts_the_layout(arrays: dict[NodeId, ChunkTable]) -> None:
    data = encode_manifest(ID, arrays, spec=2)

    found = read_manifest(decode_body(data, FileType.MANIFEST, name="m")[1])

    assert {node_id: [ref["index"] for ref in refs] for node_id, refs in found.items()} == {
        node_id: list(refs_of(table)) for node_id, table in arrays.items()
    }


@given(st.integers(0, 3).flatmap(lambda rank: st.tuples(tables(rank=rank), tables(rank=rank))))
def test_joined_tables_survive(pair: tuple[ChunkTable, ChunkTable]) -> None:
    table = overlay(*pair)
    node_id = NodeId(bytes(8))

    decoded = decode_manifest(encode_manifest(ID, {node_id: table}, spec=2), name="m")

    assert refs_of(decoded.arrays[node_id]) == refs_of(pair[0]) | refs_of(pair[1])


@st.composite
def indexes(draw: st.DrawFn) -> UInt32:
    rank = draw(st.integers(1, 3))
    rows = draw(st.sets(st.tuples(*[st.integers(0, 2**32 - 1)] * rank), min_size=1, max_size=9))
    return np.array(sorted(rows), np.uint32)


_ids = st.frozensets(node_ids, max_size=4)
_paths = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9).map("/".__add__)
logs = st.builds(
    TransactionLog,
    id=st.binary(min_size=12, max_size=12).map(SnapshotId),
    new_groups=_ids,
    new_arrays=_ids,
    deleted_groups=_ids,
    deleted_arrays=_ids,
    updated_arrays=_ids,
    updated_groups=_ids,
    updated_chunks=st.dictionaries(node_ids, indexes(), max_size=3),
    moved_nodes=st.lists(st.builds(Move, _paths, _paths, node_ids, st.booleans()), max_size=3).map(
        tuple
    ),
)


@given(logs)
def test_transaction_logs_survive(log: TransactionLog) -> None:
    decoded = decode_transaction_log(encode_transaction_log(log, spec=2), name="t")

    for name in ("id", "new_groups", "new_arrays", "deleted_groups", "deleted_arrays"):
        assert getattr(decoded, name) == getattr(log, name)
    assert decoded.updated_arrays == log.updated_arrays
    assert decoded.updated_groups == log.updated_groups
    assert sorted(map(repr, decoded.moved_nodes)) == sorted(map(repr, log.moved_nodes))
    assert {k: v.tolist() for k, v in decoded.updated_chunks.items()} == {
        k: v.tolist() for k, v in log.updated_chunks.items()
    }


# -- foreign bytes ----------------------------------------------------------------------------


@st.composite
def damaged(draw: st.DrawFn, bodies: st.SearchStrategy[bytes]) -> bytes:
    """Draw a valid flatbuffer with some bytes changed, numbers overwritten, or its end cut off."""
    body = bytearray(draw(bodies))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(body) - 1))
        change = draw(st.sampled_from(["bit", "byte", "number", "near"]))
        if change == "bit":
            body[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "byte":
            body[at] = draw(st.integers(0, 255))
        else:
            largest = len(body) if change == "near" else 2**32 - 1
            number = draw(st.one_of(st.integers(0, 16), st.integers(0, largest)))
            word = at - at % 4
            body[word : word + 4] = number.to_bytes(4, "little")
    return bytes(body[: draw(st.one_of(st.just(len(body)), st.integers(0, len(body))))])


def _manifest_body(
    arrays: dict[NodeId, ChunkTable], locations: LocationCompression | None
) -> bytes:
    data = encode_manifest(ID, arrays, spec=2, locations=locations)
    return decode_body(data, FileType.MANIFEST, name="m")[1]


def _log_body(log: TransactionLog) -> bytes:
    return decode_body(encode_transaction_log(log, spec=2), FileType.TRANSACTION_LOG, name="t")[1]


def _use_manifest(manifest: Manifest) -> None:
    for table in manifest.arrays.values():
        assert len(refs_of(table)) == len(table)
        table.location_column().validate(full=True)


def _use_log(log: TransactionLog) -> None:
    assert log.num_changes >= 0
    for index in log.updated_chunks.values():
        assert index.tolist() == sorted(index.tolist())


def _decode[T](data: bytes, decode: Callable[..., T], use: Callable[[T], None]) -> None:
    try:
        value = decode(data, name="the file")
    except FormatError as error:
        refusal = str(error)
    else:
        use(value)
        return
    assert refusal.startswith("the file: ")


@given(
    damaged(
        st.builds(_manifest_body, st.one_of(arrays, many_arrays), st.sampled_from([None, EAGER]))
    )
)
def test_damaged_manifests_are_refused_or_read(body: bytes) -> None:
    _decode(file_of(body), decode_manifest, _use_manifest)


@given(damaged(st.builds(_log_body, logs)))
def test_damaged_transaction_logs_are_refused_or_read(body: bytes) -> None:
    data = file_of(body, file_type=FileType.TRANSACTION_LOG)

    _decode(data, decode_transaction_log, _use_log)


@given(st.binary(max_size=300))
def test_random_bodies_are_refused_or_read(body: bytes) -> None:
    _decode(file_of(body), decode_manifest, _use_manifest)
    _decode(file_of(body, file_type=FileType.TRANSACTION_LOG), decode_transaction_log, _use_log)


@given(st.binary(max_size=120))
def test_random_files_are_refused(data: bytes) -> None:
    _decode(data, decode_manifest, _use_manifest)
    _decode(data, decode_transaction_log, _use_log)


@given(arrays, st.data())
def test_files_that_are_cut_short_are_refused(
    arrays: dict[NodeId, ChunkTable], data: st.DataObject
) -> None:
    whole = encode_manifest(ID, arrays, spec=2)
    size = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(FormatError, match="the file: "):
        decode_manifest(whole[:size], name="the file")
