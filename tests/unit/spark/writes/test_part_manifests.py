"""Manifests of tasks that become those of arrays, without Spark."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr

import icestream as ice
from icestream.errors import ConflictError, InvalidInputError
from icestream.model.ids import id_text
from icestream.model.manifest_sets import ChunkManifests, ManifestRule, ManifestSet
from icestream.repository.repository import Repository
from icestream.spark.writes.part_manifests import TaskReferences, commit_parts, write_parts
from icestream.spark.writes.references import ReferenceWriting
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.storage import local_filesystem_storage

LENGTH, PIECE = 30_000, 5_000
WORDS = CommitWords(message="rows")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """One with a long array, whose manifests are split, and a short one."""
    pieces = {ice.ManifestSplitDimCondition.Any(): PIECE}
    splits: dict[Any, Any] = {ice.ManifestSplitCondition.AnyArray(): pieces}
    splitting = ice.ManifestSplittingConfig.from_dict(splits)
    config = ice.RepositoryConfig(manifest=ice.ManifestConfig(splitting=splitting))
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repo")), config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="long", shape=(LENGTH,), chunks=(1,), dtype="i1")
    zarr.create_array(session.store, name="short", shape=(9,), chunks=(1,), dtype="i1")
    session.commit("arrays")
    return repo


def rows(chunks: "range | list[int]", *, array: str = "/long", location: str = "x") -> pa.Table:
    """Return references to chunks, each at the offset of its number."""
    index = np.asarray(chunks, np.int64)
    count = len(index)
    return pa.table(
        {
            "array": pa.repeat(array, count),
            "chunk": pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), index),
            "location": pa.repeat(f"s3://bucket/{location}", count),
            "byte_offset": index,
            "length": np.full(count, 4),
        }
    )


class Write:
    """A write of several tasks."""

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.writing = ReferenceWriting(WriteTarget.of(repo, "main"))
        self.tasks: list[TaskReferences] = []

    def task(self, *tables: pa.Table) -> TaskReferences:
        batches = [batch for table in tables for batch in table.to_batches()]
        fork = self.writing.target.fork()
        self.tasks.append(write_parts(fork, self.writing.write(batches), many=1_000))
        return self.tasks[-1]

    def commit(self) -> str | None:
        return commit_parts(self.writing.target, self.tasks, WORDS, remedy=self.writing.remedy)

    def part_ids(self) -> set[str]:
        return {id_text(part.file.id) for task in self.tasks for part in task.parts}


def found(repo: Repository, path: str = "/long") -> dict[int, str]:
    table = repo.readonly_session("main").reference_table(path)
    assert (table.byte_offset == table.index[:, 0]).all()
    names = [text.rpartition("/")[2] for text in table.location_column().to_pylist()]
    return dict(zip(table.index[:, 0].tolist(), names, strict=True))


def manifest_ids(repo: Repository) -> set[str]:
    return {manifest.id for manifest in repo.list_manifests(branch="main")}


def test_cells_that_one_task_has_alone_have_the_manifests_of_the_task(repo: Repository) -> None:
    write = Write(repo)
    write.task(rows(range(2 * PIECE)))
    write.task(rows(range(2 * PIECE, 3 * PIECE), location="y"))

    snapshot = write.commit()

    assert repo.lookup_branch("main") == snapshot
    assert len(write.part_ids()) == 3
    assert manifest_ids(repo) == write.part_ids()
    assert found(repo) == {n: "x" if n < 2 * PIECE else "y" for n in range(3 * PIECE)}


def test_cells_of_several_tasks_are_put_together(repo: Repository) -> None:
    write = Write(repo)
    write.task(rows(range(0, 2 * PIECE, 2)))
    write.task(rows(range(1, 2 * PIECE, 2), location="y"))
    few = write.task(rows([2 * PIECE, 4 * PIECE], location="z"), rows([3], array="/short"))

    write.commit()

    assert few.parts == ()
    assert manifest_ids(repo).isdisjoint(write.part_ids())
    expected = {n: "y" if n % 2 else "x" for n in range(2 * PIECE)}
    assert found(repo) == expected | {2 * PIECE: "z", 4 * PIECE: "z"}
    assert found(repo, "/short") == {3: "x"}


def test_what_was_there_stays_unless_it_is_written(repo: Repository) -> None:
    first = Write(repo)
    first.task(rows(range(PIECE // 2, 3 * PIECE)))
    first.commit()
    kept = manifest_ids(repo)
    second = Write(repo)
    second.task(rows(range(PIECE), location="y"))

    second.commit()

    assert len(kept & manifest_ids(repo)) == 2
    assert found(repo) == {n: "y" if n < PIECE else "x" for n in range(3 * PIECE)}


def test_a_chunk_of_two_tasks_is_refused_with_the_remedy(repo: Repository) -> None:
    before = repo.lookup_branch("main")
    write = Write(repo)
    write.task(rows(range(PIECE)))
    write.task(rows(range(PIECE - 1, 2 * PIECE)))

    with pytest.raises(InvalidInputError, match=r"chunk \(4999,\); leave one row.*dropDuplicates"):
        write.commit()

    assert repo.lookup_branch("main") == before


def test_a_commit_of_somebody_else_is_a_conflict(repo: Repository) -> None:
    write = Write(repo)
    write.task(rows(range(PIECE)))
    session = repo.writable_session("main")
    zarr.create_group(session.store, path="meanwhile")
    other = session.commit("another")

    with pytest.raises(ConflictError):
        write.commit()

    assert repo.lookup_branch("main") == other


def test_arrays_that_share_manifests_are_packed_by_the_driver(tmp_path: Path) -> None:
    config = ice.RepositoryConfig()
    few = ManifestSet("few", max_manifest_size=100_000, cardinality=1)
    config.chunk_manifests = ChunkManifests((few,), (ManifestRule("few"),))
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repo")), config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="long", shape=(LENGTH,), chunks=(1,), dtype="i1")
    session.commit("an array")
    write = Write(repo)
    write.task(rows(range(PIECE)))

    write.commit()

    assert manifest_ids(repo).isdisjoint(write.part_ids())
    assert found(repo) == dict.fromkeys(range(PIECE), "x")


def test_nothing_written_is_no_commit(repo: Repository) -> None:
    assert Write(repo).commit() is None
