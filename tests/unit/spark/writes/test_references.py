"""Rows of the table `refs` as references, without Spark."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr

from icestream.errors import ConflictError, IcestreamError, InvalidInputError, RebaseFailedError
from icestream.repository.repository import Repository
from icestream.spark.metadata_tables import find_table, table_batches
from icestream.spark.pinned import PinnedRepository
from icestream.spark.writes.references import ReferenceWriting
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.spark.writes.written_tables import join_tables
from icestream.storage import local_filesystem_storage


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """One with a plane /a and a line /b/c of chunks."""
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repo")))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4, 6), chunks=(1, 2), dtype="i2")
    zarr.create_array(session.store, name="b/c", shape=(9,), chunks=(1,), dtype="i2")
    session.commit("arrays")
    return repo


def row(array: str | None = "/a", chunk: Any = (0, 0), **others: Any) -> dict[str, Any]:
    plain = {"location": "s3://bucket/x.nc", "byte_offset": 7, "length": 4}
    return {"array": array, "chunk": chunk, **plain, **others}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows))


def refs_of(repo: Repository) -> list[dict[str, Any]]:
    session = repo.readonly_session("main")
    table, pinned = find_table("refs"), PinnedRepository.of(repo, session)
    parts = table.parts(pinned) if table.parts else []
    return [r for part in parts for b in table_batches(table, pinned, part) for r in b.to_pylist()]


def test_references_come_back_from_the_table_that_they_were_written_from(
    repo: Repository,
) -> None:
    writing = ReferenceWriting(WriteTarget.of(repo, "main"))
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    first = batch(
        row("/b/c", [5], etag="abc", last_modified=None),
        row("a", [3, 2], etag=None, last_modified=moment),
        row("/a", [0, 1], location="gs://other/y", byte_offset=2**40, length=2**33),
    )
    second = batch(row(chunk=[1, 0], etag="zz"))

    tables = join_tables([writing.write([first]), writing.write([second])], remedy="")
    snapshot = writing.target.commit(tables, CommitWords(message="rows", metadata={"by": "test"}))

    found = refs_of(repo)
    assert {(r["array"], tuple(r["chunk"]), r["location"], r["etag"]) for r in found} == {
        ("/b/c", (5,), "s3://bucket/x.nc", "abc"),
        ("/a", (3, 2), "s3://bucket/x.nc", None),
        ("/a", (0, 1), "gs://other/y", None),
        ("/a", (1, 0), "s3://bucket/x.nc", "zz"),
    }
    assert {r["last_modified"] for r in found} == {None, moment}
    assert (2**40, 2**33) in {(r["byte_offset"], r["length"]) for r in found}
    newest = next(iter(repo.ancestry(branch="main")))
    assert (newest.id, newest.message, newest.metadata) == (snapshot, "rows", {"by": "test"})
    again = pa.Table.from_pylist(found).to_batches()
    assert writing.write(again).keys() == {"/a", "/b/c"}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(array="/nope")], "no array /nope"),
        ([row(array=None)], "rows have no array"),
        ([row(), row(chunk=[1])], r"chunk must have 2 numbers for /a.*chunk \[1\]"),
        ([row(chunk=None), row()], "chunk must have 2 numbers"),
        ([row(chunk=[1, None])], "nulls in chunk"),
        ([row(chunk=[1, 3])], r"outside the grid \(4, 3\).*chunk \[1, 3\]"),
        ([row(chunk=[-1, 0])], "outside the grid"),
        ([row(location=None), row()], "no location"),
        ([row(length=0)], "length is null or below 1"),
        ([row(byte_offset=-1)], "byte_offset is null or below 0"),
        ([row(byte_offset=2**63 - 2)], r"beyond 2\*\*63"),
        ([row(kind="inline")], "only references to foreign objects"),
        ([row(location="ftp://nowhere/x")], "ftp://nowhere/x.*rows like that: 1"),
        ([row(), row()], "written more than once"),
        ([row(colour="red")], "'colour', which means nothing"),
        ([{"array": "/a"}], "no column 'chunk'"),
        ([row(byte_offset="x")], "'byte_offset' has the type"),
    ],
)
def test_rows_that_are_no_references_are_named(
    repo: Repository, rows: list[dict[str, Any]], told: str
) -> None:
    writing = ReferenceWriting(WriteTarget.of(repo, "main"))

    with pytest.raises(IcestreamError, match=told):
        writing.write([batch(*rows)])


def test_locations_outside_of_all_containers_are_taken_on_demand(repo: Repository) -> None:
    writing = ReferenceWriting(WriteTarget.of(repo, "main"), validate_containers=False)

    assert len(writing.write([batch(row(location="ftp://nowhere/x"))])["/a"]) == 1


def test_a_chunk_of_two_tasks_is_refused(repo: Repository) -> None:
    writing = ReferenceWriting(WriteTarget.of(repo, "main"))
    parts = [writing.write([batch(row())]), writing.write([batch(row(length=9))])]

    with pytest.raises(InvalidInputError, match=r"chunk \(0, 0\); one row for each"):
        join_tables(parts, remedy="one row for each")


def test_after_commits_of_others_nothing_is_written_unless_asked(repo: Repository) -> None:
    writing = ReferenceWriting(WriteTarget.of(repo, "main"))
    tables = writing.write([batch(row())])
    session = repo.writable_session("main")
    session.store.set_virtual_ref("a/c/1/1", "s3://bucket/other", 0, 4)
    tip = session.commit("another")

    with pytest.raises(ConflictError):
        writing.target.commit(tables, CommitWords())
    assert repo.lookup_branch("main") == tip

    writing.target.commit(tables, CommitWords(rebase=True))

    assert len(refs_of(repo)) == 2
    with pytest.raises(RebaseFailedError):
        writing.target.commit(tables, CommitWords(rebase=True))


def test_rows_are_columns_however_many_there_are(repo: Repository) -> None:
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="big", shape=(300_000,), chunks=(1,), dtype="i1")
    session.commit("big")
    numbers = np.random.default_rng(1).permutation(300_000)
    rows = pa.record_batch(
        {
            "array": pa.repeat("/big", len(numbers)),
            "chunk": pa.ListArray.from_arrays(
                pa.array(np.arange(len(numbers) + 1), pa.int32()), numbers
            ),
            "location": pa.repeat("s3://bucket/x.nc", len(numbers)),
            "byte_offset": numbers * 3,
            "length": pa.repeat(3, len(numbers)),
        }
    )

    table = ReferenceWriting(WriteTarget.of(repo, "main")).write([rows])["/big"]

    assert np.array_equal(table.byte_offset, np.arange(300_000, dtype="u8") * 3)


def test_no_rows_make_no_commit(repo: Repository) -> None:
    target = WriteTarget.of(repo, "main")

    assert ReferenceWriting(target).write([]) == {}
    assert target.commit({}, CommitWords()) is None
    assert target.pinned.snapshot_id == repo.lookup_branch("main")
