"""The benchmark of location compression runs, with few references."""

from pathlib import Path

import pytest
from benchmarks.libraries import ICECHUNK, ICESTREAM
from benchmarks.location_compression import Kind, Manifest, encode, read, write

REFERENCES = 1_600


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("writer", [ICECHUNK, ICESTREAM])
def test_manifests_are_written_and_read(tmp_path: Path, kind: Kind, writer: str) -> None:
    manifest = Manifest(kind, writer, has_dictionary=True, level=3)

    assert write(manifest, tmp_path, REFERENCES)["file_mb"] > 0
    assert encode(manifest, tmp_path, REFERENCES)["encode_s"] > 0
    for reader in (ICECHUNK, ICESTREAM):
        assert read(reader, tmp_path, REFERENCES)["lookup_us"] > 0
