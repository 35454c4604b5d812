"""Any locations survive compression, whichever way they are compressed."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.foreign_manifests import MANIFEST_ID, NODE
from tests.tables import Refs, refs_of

from icestream.codec.location_dictionary import compress_locations
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.model.chunk_refs import VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ManifestId, NodeId
from icestream.model.manifests import LocationCompression

EAGER = LocationCompression(min_num_chunks=1)

_characters = st.characters(codec="utf-8", exclude_characters="\0")
_prefixes = st.text(_characters, min_size=32, max_size=400)
_rests = st.lists(st.text(_characters, max_size=60), min_size=2, max_size=12, unique=True)


@given(prefix=_prefixes, rests=_rests)
def test_locations_that_begin_alike_survive(prefix: str, rests: list[str]) -> None:
    refs: Refs = {(i,): VirtualRef(prefix + rest, 0, 1) for i, rest in enumerate(rests)}
    table = ChunkTable.from_refs(refs, 1)

    data = encode_manifest(ManifestId(MANIFEST_ID), {NodeId(NODE): table}, spec=2, locations=EAGER)

    assert refs_of(decode_manifest(data, name="m").arrays[NodeId(NODE)]) == refs


@given(prefix=_prefixes, rests=_rests)
def test_compressed_locations_are_shorter(prefix: str, rests: list[str]) -> None:
    texts = pa.chunked_array([pa.array([prefix + rest for rest in rests], pa.large_string())])

    compressed = compress_locations(texts, EAGER)

    if compressed is not None:
        assert compressed.frames.nbytes < texts.nbytes
