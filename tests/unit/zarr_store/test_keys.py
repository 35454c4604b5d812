import pytest

from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, SessionStateError
from icestream.zarr_store.keys import (
    ChunkKey,
    MetadataKey,
    chunk_prefix,
    find_key,
    metadata_key,
    parse_key,
)


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("zarr.json", MetadataKey("/")),
        ("a/b/zarr.json", MetadataKey("/a/b")),
        ("zarr.json/zarr.json", MetadataKey("/zarr.json")),
        ("c/zarr.json", MetadataKey("/c")),
        ("c", ChunkKey("/", ())),
        ("c/0/10", ChunkKey("/", (0, 10))),
        ("a/c", ChunkKey("/a", ())),
        ("a/c/0/4294967295", ChunkKey("/a", (0, 2**32 - 1))),
        ("a/c/c/0", ChunkKey("/a/c", (0,))),
        ("c/0/c/1", ChunkKey("/c/0", (1,))),
        ("a\nb/c/0", ChunkKey("/a\nb", (0,))),
        ("äö/zarr.json", MetadataKey("/äö")),
    ],
)
def test_keys_name_metadata_and_chunks(key: str, named: object) -> None:
    assert find_key(key) == named
    assert parse_key(key) == named


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "foo",
        "a/0/0",
        "a/c/0.0",
        "a/c/01",
        "a/c/-1",
        "a/c/0/",
        "a/c/٣",
        "a/c/" + "1" * 5000,
        "/zarr.json",
        "a//zarr.json",
        "a/../zarr.json",
        "./c/0",
        "xzarr.json",
        "zarr.json\n",
    ],
)
def test_other_keys_name_nothing_and_cannot_be_written(key: str) -> None:
    assert find_key(key) is None
    with pytest.raises(InvalidInputError, match="'path/c/0/0'") as caught:
        parse_key(key)
    assert caught.value.kind is ErrorKind.INVALID_KEY


@pytest.mark.parametrize("name", [".zgroup", ".zarray", ".zattrs", ".zmetadata"])
@pytest.mark.parametrize("folder", ["", "a/b/"])
def test_metadata_of_zarr_2_is_absent_and_its_writing_refused(folder: str, name: str) -> None:
    assert find_key(folder + name) is None
    with pytest.raises(SessionStateError, match="zarr_format=3") as caught:
        parse_key(folder + name)
    assert caught.value.kind is ErrorKind.UNIMPLEMENTED


@pytest.mark.parametrize("path", ["/", "/a", "/a/c", "/zarr.json"])
def test_keys_of_a_path_lead_back_to_it(path: str) -> None:
    assert find_key(metadata_key(path)) == MetadataKey(path)
    assert find_key(chunk_prefix(path)) == ChunkKey(path, ())
    assert find_key(chunk_prefix(path) + "/1/2") == ChunkKey(path, (1, 2))


def test_both_errors_belong_to_the_package() -> None:
    for key in ("foo", ".zgroup"):
        with pytest.raises(IcestreamError):
            parse_key(key)
