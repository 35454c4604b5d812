"""The writers behind the format, as Spark calls them but without Spark."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.spark.cells.oceans import local_ocean

from icestream.errors import IcestreamError
from icestream.repository.repository import Repository
from icestream.spark.writes.writers import make_writer

COLUMNS = ["time", "lat", "lon", "depth"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ocean"


@pytest.fixture
def repo(folder: Path) -> Repository:
    return local_ocean(folder)


def test_a_writer_travels_between_processes_and_commits_once(
    folder: Path, repo: Repository
) -> None:
    options = {"path": str(folder), "array": "/depth", "indexes": "true", "message": "two cells"}
    rows = [pa.record_batch({"time": [t], "lat": [0], "lon": [0], "depth": [t]}) for t in (1, 9)]

    writer = make_writer(options, COLUMNS, overwrite=False)
    messages = [pickle.loads(pickle.dumps(writer.write(iter([row])))) for row in rows]
    pickle.loads(pickle.dumps(writer)).commit([*messages, None])

    newest = next(iter(repo.ancestry(branch="main")))
    assert newest.message == "two cells"
    writer.abort([*messages, None])
    assert repo.lookup_branch("main") == newest.id


@pytest.mark.usefixtures("repo")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"colour": "red"}, "'colour' is not known"),
        ({"secret-key": "x"}, "looks like a credential.*write_array"),
        ({"array": "/nope"}, "no array nope"),
        ({"branch": "nope"}, "nope"),
        ({"table": "nodes"}, "only table that can be written"),
        ({"table": "refs"}, "no column 'array'"),
        ({"table": "refs", "array": "/depth"}, "means nothing for a table"),
        ({"array": "/depth", "group": "/"}, "names one array"),
        ({"validate-containers": "false"}, "table=refs only"),
        ({"array": "/depth", "indexes": "maybe"}, "neither true nor false"),
    ],
)
def test_bad_options_are_told_when_the_write_is_planned(
    folder: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(IcestreamError, match=told):
        make_writer({"path": str(folder), **options}, COLUMNS, overwrite=False)


@pytest.mark.usefixtures("repo")
def test_overwriting_and_writing_nowhere_are_refused(folder: Path) -> None:
    with pytest.raises(IcestreamError, match="append"):
        make_writer({"path": str(folder), "array": "/depth"}, COLUMNS, overwrite=True)
    with pytest.raises(IcestreamError, match="no path"):
        make_writer({"array": "/depth"}, COLUMNS, overwrite=False)
