"""Files with declarations of archives."""

from pathlib import Path

import pytest

from icestream.cli.declarations import (
    absolute_source,
    name_of_sources,
    read_declaration,
    source_places,
    write_declaration,
)
from icestream.errors import AlreadyExistsError, InvalidInputError

GOOD = "name: sst\nsources: [s3://b/]\ntarget: {repository: repo}\n"


def test_a_declaration_is_read(tmp_path: Path):
    file = tmp_path / "sst.yaml"
    file.write_text(GOOD)
    assert read_declaration(file).name == "sst"


def test_all_faults_are_named_with_the_file(tmp_path: Path):
    file = tmp_path / "sst.yaml"
    file.write_text("name: sst\npolicies: {on-broken: ignore}\ntarget: {}\n")
    with pytest.raises(InvalidInputError) as caught:
        read_declaration(file)
    message = str(caught.value)
    assert str(file) in message
    for path in ("policies.on-broken", "sources", "target.repository"):
        assert path in message


@pytest.mark.parametrize("text", ["{", "name: [", "\x00"])
def test_what_is_no_yaml_is_a_wrong_value(tmp_path: Path, text: str):
    """Not damaged storage, which has another exit code."""
    file = tmp_path / "sst.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=r"sst\.yaml"):
        read_declaration(file)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    with pytest.raises(InvalidInputError, match="Is a directory"):
        read_declaration(tmp_path)


def test_what_somebody_edited_is_not_overwritten(tmp_path: Path):
    file = tmp_path / "sst.yaml"
    write_declaration(file, GOOD)
    with pytest.raises(AlreadyExistsError, match="another --file"):
        write_declaration(file, "")
    assert file.read_text() == GOOD
    with pytest.raises(InvalidInputError, match="No such file or directory"):
        write_declaration(tmp_path / "missing" / "sst.yaml", GOOD)


def test_local_sources_become_absolute(monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert absolute_source("data/**/*.nc") == f"{tmp_path}/data/**/*.nc"
    assert absolute_source("./data/") == f"{tmp_path}/data/"
    assert absolute_source("s3://b/data/*.nc") == "s3://b/data/*.nc"


def test_what_was_needed_to_reach_sources_is_kept_by_bucket():
    options = {"anonymous": True, "region": "us-east-1"}
    first, second = source_places(["s3://a/x/*.nc", "s3://a/y", "s3://b"], options)
    assert (first.prefix, second.prefix) == ("s3://a/", "s3://b/")
    assert first.anonymous
    assert first.region == "us-east-1"
    assert source_places(["s3://a/x"], {}) == ()
    with pytest.raises(InvalidInputError, match="--anonymous, --region means nothing"):
        source_places(["/data"], options)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("s3://noaa/sst/v2.1/**/*.nc", "sst"),
        ("s3://noaa/daily sst/", "daily-sst"),
        ("/data/ocean", "ocean"),
        ("/data/ocean/a.nc", "ocean"),
        ("s3://bucket", "bucket"),
        ("/*.nc", "archive"),
    ],
)
def test_an_archive_is_named_after_its_folder(source: str, name: str):
    assert name_of_sources([source]) == name
