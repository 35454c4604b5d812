"""Branch and tag files of spec 1."""

from collections.abc import Callable

import pytest

from icestream.codec.refs import (
    RefFile,
    RefKind,
    branch_path,
    decode_ref,
    encode_ref,
    find_ref,
    tag_path,
    tag_tombstone_path,
)
from icestream.errors import FormatError, InvalidInputError
from icestream.model.ids import INITIAL_SNAPSHOT_ID, parse_snapshot_id


def test_a_ref_has_the_bytes_that_icechunk_writes() -> None:
    snapshot_id = parse_snapshot_id("GT629E733NM8M2JQT4TG")

    assert encode_ref(snapshot_id) == b'{"snapshot":"GT629E733NM8M2JQT4TG"}'
    assert decode_ref(encode_ref(snapshot_id), name="r") == snapshot_id


def test_any_json_spelling_is_read() -> None:
    data = b'\n{ "other": [1],\t"snapshot" : "1cechnkrep0f1rstcmt0" }\n'

    assert decode_ref(data, name="r") == INITIAL_SNAPSHOT_ID


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe\xfd",
        b"[]",
        b"null",
        b"{}",
        b'{"snapshot": 3}',
        b'{"snapshot": "short"}',
        b'{"snapshot": "UUUUUUUUUUUUUUUUUUUU"}',
        b"[" * 4000,
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}' + b" " * 5000,
    ],
)
def test_a_damaged_ref_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^refs/branch.main/ref.json: "):
        decode_ref(data, name="refs/branch.main/ref.json")


def test_paths_are_those_of_the_specification() -> None:
    assert branch_path("main") == "refs/branch.main/ref.json"
    assert tag_path("v1.0") == "refs/tag.v1.0/ref.json"
    assert tag_tombstone_path("v1.0") == "refs/tag.v1.0/ref.json.deleted"


@pytest.mark.parametrize("name", ["main", "v1.0", "größe", "tag.x", "a b", "."])
def test_a_path_is_parsed_back_to_its_name(name: str) -> None:
    assert find_ref(branch_path(name)) == RefFile(RefKind.BRANCH, name)
    assert find_ref(tag_path(name)) == RefFile(RefKind.TAG, name)
    assert find_ref(tag_tombstone_path(name)) == RefFile(RefKind.TAG_TOMBSTONE, name)


@pytest.mark.parametrize(
    "path",
    [
        "refs/branch.main/ref.json.tmp",
        "refs/branch.main/ref.json.deleted",
        "refs/branch.a/b/ref.json",
        "refs/branch./ref.json",
        "refs/branch/ref.json",
        "refs/other.main/ref.json",
        "refs/ref.json",
        "branch.main/ref.json",
        "snapshots/1CECHNKREP0F1RSTCMT0",
    ],
)
def test_stray_files_are_no_refs(path: str) -> None:
    assert find_ref(path) is None


@pytest.mark.parametrize("name", ["", "a/b"])
@pytest.mark.parametrize("make", [branch_path, tag_path, tag_tombstone_path])
def test_names_that_spec_1_cannot_hold_are_refused(make: Callable[[str], str], name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot name a branch or tag"):
        make(name)
