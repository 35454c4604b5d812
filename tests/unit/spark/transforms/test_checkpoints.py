"""Checkpoints as files."""

import io
import tarfile
from pathlib import Path

import pytest
import zstandard
from tests.transforms import set_transform

from icestream.errors import FormatError
from icestream.spark.transforms.checkpoints import (
    EngineFacts,
    has_state,
    pack_state,
    queries_hash,
    read_facts,
    unpack_state,
)

FACTS = EngineFacts(engine="spark", version="4.3.0", queries="f00", watermarks={"did:odf:a": None})


def stream_files(folder: Path) -> Path:
    (folder / "state" / "0").mkdir(parents=True)
    (folder / "metadata").write_text("id")
    (folder / ".metadata.crc").write_text("sum")
    (folder / "state" / "0" / "1.delta").write_bytes(b"\0" * 1000)
    return folder


def test_facts_come_back_from_both_kinds(tmp_path: Path) -> None:
    plain, packed = FACTS.encode(), pack_state(stream_files(tmp_path), FACTS)

    assert read_facts(plain) == read_facts(packed) == FACTS
    assert (has_state(plain), has_state(packed), has_state(None)) == (False, True, False)


def test_the_same_files_make_the_same_bytes_anywhere(tmp_path: Path) -> None:
    one, other = stream_files(tmp_path / "one"), tmp_path / "other"
    other.mkdir()
    packed = pack_state(one, FACTS)

    unpack_state(packed, other)

    assert pack_state(other, FACTS) == packed
    names = sorted(str(path.relative_to(other)) for path in other.rglob("*") if path.is_file())
    assert names == ["metadata", "state/0/1.delta"]


def test_checkpoints_of_other_programs_tell_what_they_can() -> None:
    facts = read_facts(b'{"watermarks":{"did:odf:a":"2024-01-01T00:00:00Z"}}')

    assert (facts.engine, facts.version, facts.queries) == ("", "", "")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b"\x28\xb5\x2f\xfdnothing"])
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="start over"):
        read_facts(data)


def test_damaged_state_is_refused(tmp_path: Path) -> None:
    packed = pack_state(stream_files(tmp_path), FACTS)

    with pytest.raises(FormatError):
        unpack_state(packed[: len(packed) // 2], tmp_path / "other")


def test_files_do_not_leave_their_folder(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("stream/../../escaped"))
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)

    with pytest.raises(FormatError):
        unpack_state(zstandard.compress(buffer.getvalue()), folder)

    assert not (tmp_path / "a" / "escaped").exists()


def test_queries_are_told_from_others() -> None:
    hashes = {
        queries_hash(transform)
        for transform in (
            set_transform("select 1"),
            set_transform("select 2"),
            set_transform(("a", "select 1"), "select 2"),
            set_transform("select 1", inputs=[("b", "readings")]),
            set_transform("select 1", version="4.3"),
        )
    }

    assert len(hashes) == 4
