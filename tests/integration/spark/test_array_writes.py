"""DataFrames written to repositories: by the format, and by functions."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it
from tests.unit.spark.cells.every_type import EVERY_TYPE, create_every_type
from tests.unit.spark.cells.oceans import local_ocean, ocean

import icestream as ice
from icestream.errors import ConflictError, InvalidInputError
from icestream.repository.repository import Repository
from icestream.spark import CellQuery, CommitWords, read_array, write_array, write_references
from icestream.spark.writes.reference_jobs import write_reference_rows
from icestream.spark.writes.references import ReferenceWriting
from icestream.spark.writes.targets import WriteTarget
from icestream.storage import local_filesystem_storage

# tasks do not find this module, so its functions go along with them
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BOTH = CellQuery(variables=("temperature", "depth"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ocean"


@pytest.fixture
def repo(folder: Path) -> Repository:
    return local_ocean(folder)


def save(frame: DataFrame, folder: Path, **options: str) -> None:
    dashed = {name.replace("_", "-"): text for name, text in options.items()}
    frame.write.format("icestream").mode("append").options(**dashed).save(str(folder))


def shown(repo: Repository) -> xr.Dataset:
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, zarr_format=3).load()
    return found


def messages(repo: Repository) -> list[str]:
    return [info.message for info in repo.ancestry(branch="main")]


def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass the first batch on, and fail."""
    yield next(batches)
    raise RuntimeError("this task fails")


def test_an_array_changed_in_sql_is_written_in_one_commit(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    cells = read_array(spark, repo, BOTH, sel={"lat": slice(41, 44)})
    warmer = cells.withColumn("temperature", F.col("temperature") + 1).orderBy(F.rand(5))

    snapshot = write_array(
        warmer, repo, BOTH, commit=CommitWords(message="warmer", metadata={"by": "sql"})
    )

    expected = ocean()
    expected.temperature.loc[{"lat": slice(41, 44)}] += 1
    xr.testing.assert_allclose(shown(repo), expected)
    assert messages(repo)[:2] == ["warmer", "an ocean"]
    assert repo.lookup_branch("main") == snapshot
    reference = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder)))
    store = reference.readonly_session("main").store
    read_by_icechunk = xr.open_zarr(store, consolidated=False, zarr_format=3).load()
    xr.testing.assert_allclose(read_by_icechunk, expected)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_values_of_every_type_pass_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    repos = [
        Repository.create(local_filesystem_storage(str(tmp_path / name)))
        for name in ("source", "copy")
    ]
    for repo in repos:
        with repo.transaction("main", message="every type") as store:
            create_every_type(store, filled=repo is repos[0])

    cells = read_array(spark, repos[0], CellQuery())
    write_array(cells, repos[1], CellQuery())

    copy = zarr.open_group(repos[1].readonly_session("main").store, mode="r")
    for name, (values, _) in EVERY_TYPE.items():
        np.testing.assert_array_equal(np.asarray(copy[name]), values, err_msg=name)


def test_the_format_writes_cells_whose_chunks_are_together(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    deeper = read_array(spark, repo, "/depth").withColumn("depth", F.col("depth") + 1)

    # as chunks are read one by one, so they are written
    save(deeper.select("time", "lat", "lon", "depth"), folder, array="/depth", message="deeper")

    expected = ocean()
    expected["depth"] += 1
    xr.testing.assert_allclose(shown(repo), expected)
    assert messages(repo)[0] == "deeper"


def test_chunks_spread_over_tasks_are_refused_with_the_way_out(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    spread = read_array(spark, repo, "/depth").repartition(3)

    with pytest.raises(PySparkException, match=r"written more than once.*write_array"):
        save(spread, folder, array="/depth")
    assert messages(repo)[0] == "an ocean"


def test_a_task_that_fails_leaves_nothing_visible(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    cells = read_array(spark, repo, "/depth")
    cells = cells.mapInArrow(failing, cells.schema)

    for write in (
        lambda: save(cells, folder, array="/depth"),
        lambda: write_array(cells, repo, "/depth"),
    ):
        with pytest.raises(PySparkException, match="this task fails"):
            write()
    assert messages(repo)[0] == "an ocean"
    assert int((shown(repo).depth != ocean().depth).sum()) == 0


def test_bad_rows_of_a_function_are_our_errors(spark: SparkSession, repo: Repository) -> None:
    cells = read_array(spark, repo, "/depth")

    for name, value, told in (
        ("lat", F.lit(99.0), "99.0 is no value of this coordinate"),
        ("lon", F.lit(3), "two rows are the cell"),
        ("depth", F.lit(70_000), "'depth' has the type"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            write_array(cells.withColumn(name, value), repo, "/depth")
    with pytest.raises(InvalidInputError, match="'dept' is neither a coordinate nor an array"):
        write_array(cells.withColumn("dept", F.lit(1)), repo, "/depth")
    assert messages(repo)[0] == "an ocean"


def test_a_commit_of_another_meanwhile_is_a_conflict(
    spark: SparkSession, repo: Repository, folder: Path
) -> None:
    def meddling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                other = Repository.open(local_filesystem_storage(str(folder)))
                with other.transaction("main", message="meddled") as store:
                    zarr.open_group(store).attrs["meddled"] = True
            yield batch

    cells = read_array(spark, repo, "/depth", sel={"lon": 1}).coalesce(1)
    meddled = cells.mapInArrow(meddling, cells.schema)

    with pytest.raises(ConflictError):
        write_array(meddled, repo, "/depth")
    with pytest.raises(PySparkException, match="ConflictError"):
        save(meddled, folder, array="/depth")
    assert set(messages(repo)) == {"meddled", "an ocean", "Repository initialized"}

    write_array(meddled, repo, "/depth", commit=CommitWords(message="deeper", rebase=True))

    assert messages(repo)[0] == "deeper"


def test_bad_options_are_told_before_anything_runs(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    rows = read_array(spark, repo, "/depth")

    with pytest.raises(AnalysisException, match="'colour' is not known"):
        save(rows, folder, colour="red")


# -- references -----------------------------------------------------------------------------------


def virtual_repository(folder: Path, data: Path) -> Repository:
    """One with an array /v of 40 chunks, whose bytes are in a file."""
    data.write_bytes(np.arange(400, dtype="<i4").tobytes())
    config = ice.RepositoryConfig()
    place = f"file://{data.parent}/"
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(place, ice.local_filesystem_store(str(data.parent)))
    )
    repo = Repository.create(
        local_filesystem_storage(str(folder)), config, authorize_virtual_chunk_access={place: None}
    )
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(400,), chunks=(10,), dtype="<i4", compressors=None
    )
    session.commit("an empty array")
    return repo


def references(spark: SparkSession, data: Path, **others: Any) -> DataFrame:
    rows = spark.range(40).select(
        F.lit("/v").alias("array"),
        F.array("id").alias("chunk"),
        F.lit(f"file://{data}").alias("location"),
        (F.col("id") * 40).alias("byte_offset"),
        F.lit(40).alias("length"),
    )
    return rows.withColumns(others).repartition(5)


def test_references_are_written_by_the_format_and_by_a_function(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data.bin"
    by_format, by_function = tmp_path / "format", tmp_path / "function"
    repos = [virtual_repository(place, data) for place in (by_format, by_function)]

    save(references(spark, data), by_format, table="refs", message="40 references")
    write_references(references(spark, data), repos[1])

    for repo in repos:
        array = zarr.open_array(repo.readonly_session("main").store, path="v")
        assert np.array_equal(np.asarray(array[:]), np.arange(400))
    assert messages(repos[0])[0] == "40 references"
    tables = [
        spark.read.format("icestream").option("table", "refs").load(str(place))
        for place in (by_format, by_function)
    ]
    assert tables[0].exceptAll(tables[1]).isEmpty()
    reference = icechunk.Repository.open(icechunk.local_filesystem_storage(str(by_format)))
    found = reference.readonly_session("main").all_virtual_chunk_locations()
    assert found == [f"file://{data}"] * 40


def test_bad_references_are_named_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data.bin"
    repo = virtual_repository(tmp_path / "repo", data)
    wrong = references(spark, data, location=F.lit("ftp://nowhere/x"))
    twice = references(spark, data, chunk=F.array((F.col("chunk")[0] / 2).cast("bigint")))

    with pytest.raises(InvalidInputError, match="ftp://nowhere/x"):
        write_references(wrong, repo)
    with pytest.raises(InvalidInputError, match="dropDuplicates"):
        write_references(twice, repo)
    with pytest.raises(PySparkException, match="ftp://nowhere/x"):
        save(wrong, tmp_path / "repo", table="refs")
    assert messages(repo)[0] == "an empty array"


def big_repository(tmp_path: Path) -> Repository:
    """Return one whose array of 30,000 chunks has the first and the last of them."""
    data = tmp_path / "data.bin"
    repo = virtual_repository(tmp_path / "repo", data)
    pieces = {ice.ManifestSplitDimCondition.Any(): 5_000}
    splits: dict[Any, Any] = {ice.ManifestSplitCondition.AnyArray(): pieces}
    config = repo.config
    config.manifest = ice.ManifestConfig(splitting=ice.ManifestSplittingConfig.from_dict(splits))
    repo = repo.reopen(config)
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="big", shape=(30_000,), chunks=(1,), dtype="i1", compressors=None
    )
    session.store.set_virtual_ref("big/c/0", f"file://{data}", 4, 1)
    session.store.set_virtual_ref("big/c/29999", f"file://{data}", 4, 1)
    session.commit("an array with two chunks")
    return repo


def many_references(spark: SparkSession, data: Path) -> DataFrame:
    return spark.range(12_000).select(
        F.lit("/big").alias("array"),
        F.array("id").alias("chunk"),
        F.lit(f"file://{data}").alias("location"),
        F.when(F.col("id") % 2 == 0, 0).otherwise(8).alias("byte_offset"),
        F.lit(1).alias("length"),
    )


def test_executors_write_the_manifests_of_arrays_that_get_many(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data.bin"
    repo = big_repository(tmp_path)
    many = many_references(spark, data)
    rows = many.unionByName(references(spark, data).where("chunk[0] = 3")).repartition(3)
    writing = ReferenceWriting(WriteTarget.of(repo, "main"))

    snapshot = write_reference_rows(rows, writing, CommitWords(message="many"), large=10_000)

    assert repo.lookup_branch("main") == snapshot
    assert_big(repo)
    diff = repo.diff(from_snapshot_id=writing.target.pinned.snapshot_id, to_branch="main")
    assert {path: len(chunks) for path, chunks in diff.updated_chunks.items()} == {
        "/big": 12_000,
        "/v": 1,
    }
    twice = ReferenceWriting(WriteTarget.of(repo, "main"))
    with pytest.raises(InvalidInputError, match="two new references for chunk"):
        write_reference_rows(many.unionByName(many), twice, CommitWords(), large=10_000)
    assert repo.lookup_branch("main") == snapshot


def assert_big(repo: Repository) -> None:
    store = repo.readonly_session("main").store
    expected = np.where(np.arange(30_000) % 2, 2, 0)
    expected[12_000:] = [0] * 17_999 + [1]
    assert np.array_equal(np.asarray(zarr.open_array(store, path="big")[:]), expected)
    assert np.asarray(zarr.open_array(store, path="v")[30:40]).tolist() == [*range(30, 40)]
    counts = sorted(m.references for m in repo.list_manifests(branch="main") if "/big" in m.arrays)
    assert counts == [1, 2_000, 5_000, 5_000]


def test_tasks_of_the_format_write_manifests_of_what_they_have_many_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data.bin"
    repo = big_repository(tmp_path)
    many = many_references(spark, data).coalesce(1)
    rows = many.unionByName(references(spark, data).where("chunk[0] = 3"))
    files = len([*(tmp_path / "repo" / "manifests").iterdir()])

    save(rows, tmp_path / "repo", table="refs", message="many")

    assert messages(repo)[0] == "many"
    assert_big(repo)
    # three of the task; one for the cell that had a chunk before, and one for the other array
    assert len([*(tmp_path / "repo" / "manifests").iterdir()]) == files + 3 + 1 + 1
    head = repo.lookup_branch("main")
    with pytest.raises(PySparkException, match="written more than once"):
        save(many.unionByName(many), tmp_path / "repo", table="refs")
    assert repo.lookup_branch("main") == head
