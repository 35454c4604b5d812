"""Arrays and metadata of repositories in Spark, found without registering anything."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it
from tests.unit.spark.cells.oceans import local_ocean, ocean

from icestream.credentials import s3_credentials
from icestream.ledger import Dataset, Workspace
from icestream.repository.repository import Repository
from icestream.spark import CellQuery, VersionName, read_array
from icestream.storage import local_filesystem_storage


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark") / "ocean"


@pytest.fixture(scope="module")
def repo(folder: Path) -> Repository:
    return local_ocean(folder)


def load(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    dashed = {name.replace("_", "-"): text for name, text in options.items()}
    return spark.read.format("icestream").options(**dashed).load(str(folder))


@pytest.mark.usefixtures("repo")
def test_cells_are_rows_with_decoded_values(spark: SparkSession, folder: Path) -> None:
    frame = load(spark, folder, rows_per_partition="100")

    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("time", "timestamp"),
        ("lat", "float"),
        ("lon", "bigint"),
        ("area", "double"),
        ("height", "double"),
        ("depth", "int"),
        ("temperature", "double"),
    ]
    found = frame.agg(
        F.count("*"), F.count("temperature"), F.sum("temperature"), F.min("time")
    ).first()
    assert found is not None
    expected = float(ocean().temperature.sum())
    assert tuple(found) == (480, 479, pytest.approx(expected), datetime(2024, 5, 29))  # noqa: DTZ001  as Spark gives it
    assert frame.rdd.getNumPartitions() == 6


@pytest.mark.usefixtures("repo")
@pytest.mark.parametrize("select", [None, '{"time": "2024-06", "lat": {"from": 41}}'])
def test_a_where_clause_in_sql_is_right_with_and_without_a_selection(
    spark: SparkSession, folder: Path, select: str | None
) -> None:
    chosen = "" if select is None else f", select '{select}'"
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW cells USING icestream "
        f"OPTIONS (path '{folder}', array '/depth'{chosen})"
    )
    wanted = "time >= '2024-06-03' AND lat BETWEEN 42 AND 44.5"
    cube = ocean().depth.sel(time=slice("2024-06-03", None), lat=slice(42, 44.5))

    counted = spark.sql(f"SELECT count(*), sum(depth) FROM cells WHERE {wanted}").first()  # noqa: S608  ours
    everything = spark.sql("SELECT count(*) FROM cells").first()
    other = spark.sql(
        f"SELECT lon FROM cells WHERE lon = 1 AND {wanted} "  # noqa: S608  ours
        f"UNION ALL SELECT lon FROM cells WHERE lon = 2 AND {wanted}"
    )

    assert counted is not None
    assert tuple(counted) == (cube.size, int(cube.sum()))
    assert everything == (480 if select is None else 7 * 5 * 8,)
    assert sorted(row.lon for row in other.collect()) == [1] * 15 + [2] * 15


def test_chunks_that_a_selection_does_not_touch_are_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    repo = local_ocean(tmp_path / "ocean")
    kept = {"time", "lat", "area", "height"}
    table = load(spark, tmp_path / "ocean", table="refs").where("kind = 'native'").collect()
    for row in table:
        if row.array.strip("/") not in kept and (row.array, row.chunk[0]) != ("/depth", 1):
            (tmp_path / "ocean" / "chunks" / row.chunk_id).unlink()

    sel = {"time": {"from": "2024-06-02", "to": "2024-06-05"}}
    in_task = read_array(spark, repo, "/depth", sel=sel)
    by_option = load(spark, tmp_path / "ocean", array="depth", select=json.dumps(sel))

    total = int(ocean().depth.sel(time=slice("2024-06-02", "2024-06-05")).sum())
    assert in_task.agg(F.sum("depth")).first() == (total,)
    assert by_option.agg(F.sum("depth")).first() == (total,)


def test_versions_are_read_by_every_name_and_stay_what_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "numbers"
    repo = Repository.create(local_filesystem_storage(str(place)))
    session = repo.writable_session("main")
    numbers = zarr.create_array(
        session.store, name="n", shape=(4,), dtype="i8", dimension_names=["x"]
    )
    numbers[:] = 1
    first = session.commit("ones")
    repo.create_tag("v1", first)
    before = load(spark, place)
    moment = datetime.now(UTC).isoformat()
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="n")[:] = 2
    session.commit("twos")

    def total(frame: DataFrame) -> int:
        (found,) = frame.agg(F.sum("n")).collect()
        return int(found[0])

    assert total(load(spark, place)) == 8
    assert total(before) == 4  # planned before the commit, run after it
    assert total(load(spark, place, tag="v1")) == 4
    assert total(load(spark, place, snapshot=first)) == 4
    assert total(load(spark, place, branch="main", as_of=moment)) == 4
    assert total(load(spark, place, as_of=moment)) == 4
    assert total(read_array(spark, repo, CellQuery(), version=VersionName(tag="v1"))) == 4


@pytest.mark.usefixtures("repo")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"colour": "red"}, "'colour' is not known"),
        ({"array": "/nope"}, "no array nope"),
        ({"select": '{"depth": 1}'}, "'depth', which is no coordinate"),
        ({"table": "nope"}, "no table 'nope'"),
        ({"branch": "nope"}, "nope"),
        ({"tag": "a", "branch": "b"}, "name one version"),
    ],
)
def test_bad_input_is_told_when_the_dataframe_is_made(
    spark: SparkSession, folder: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(AnalysisException, match=told):
        load(spark, folder, **options)


def test_a_selection_may_leave_nothing(spark: SparkSession, folder: Path, repo: Repository) -> None:
    assert load(spark, folder, select='{"lat": 99}').count() == 0
    assert read_array(spark, repo, "depth", sel={"lat": 99}).collect() == []


def test_credentials_travel_in_tasks_and_are_shown_nowhere(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    secret = "very-secret-thing"
    known = s3_credentials(access_key_id="id", secret_access_key=secret)
    opened = repo.reopen(authorize_virtual_chunk_access={"s3://bucket/": known})

    frame = read_array(spark, opened, "depth", sel={"lon": 3})

    assert frame.count() == 60
    shown = [repr(frame), frame._jdf.queryExecution().toString()]
    settings = spark.sparkContext.getConf().getAll()
    assert not any(secret in text for text in [*shown, str(settings), str(folder)])


def test_what_a_repository_knows_is_in_tables(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    refs = load(spark, folder, table="refs").where("array = '/depth'").collect()
    assert len(refs) == 12
    assert {row.kind for row in refs} == {"native"}
    assert {(folder / "chunks" / row.chunk_id).stat().st_size for row in refs} == {
        row.length for row in refs
    }
    nodes = {row.path: row for row in load(spark, folder, table="nodes").collect()}
    assert nodes["/depth"].shape == [10, 6, 8]
    assert nodes["/depth"].dimension_names == ["time", "lat", "lon"]
    messages = [row.message for row in load(spark, folder, table="snapshots").collect()]
    assert messages == ["an ocean", "Repository initialized"]
    manifests = load(spark, folder, table="manifests").agg(F.sum("references")).first()
    assert manifests == (sum(m.references for m in repo.list_manifests(branch="main")),)


def test_sources_are_the_objects_that_virtual_chunks_are_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "virtual"
    repo = Repository.create(local_filesystem_storage(str(place)))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="v", shape=(2,), chunks=(1,), dtype="i8")
    for number in range(2):
        session.store.set_virtual_ref(f"v/c/{number}", "s3://bucket/file.nc", number * 8, 8)
    session.commit("references")

    sources = load(spark, place, table="sources").collect()
    refs = load(spark, place, table="refs").orderBy("byte_offset").collect()

    assert [tuple(row)[:3] for row in sources] == [("s3://bucket/file.nc", 2, 16)]
    assert [(row.chunk, row.location, row.byte_offset) for row in refs] == [
        ([0], "s3://bucket/file.nc", 0),
        ([1], "s3://bucket/file.nc", 8),
    ]


def test_events_are_the_blocks_of_a_dataset(spark: SparkSession, tmp_path: Path) -> None:
    dataset = Dataset.create(local_filesystem_storage(str(tmp_path / "cities")), "cities")
    dataset.add_data(pa.table({"city": ["kyiv", "odesa"]}))

    events = load(spark, tmp_path / "cities", table="events").orderBy("sequence_number").collect()

    assert events[0].event == "Seed"
    assert (events[-1].event, events[-1].records, events[-1].last_offset) == ("AddData", 2, 1)
    with pytest.raises(AnalysisException, match="no repository"):
        load(spark, tmp_path / "cities")
    with pytest.raises(AnalysisException, match="no dataset"):
        load(spark, tmp_path / "nowhere", table="events")


def test_events_are_found_by_the_name_of_a_dataset(spark: SparkSession, tmp_path: Path) -> None:
    Workspace(local_filesystem_storage(str(tmp_path))).create("acme/cities")

    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW blocks USING icestream"
        f" OPTIONS (path '{tmp_path}', table 'events', dataset 'acme/cities')"
    )

    assert [row.event for row in spark.table("blocks").collect()] == ["Seed"]
    with pytest.raises(AnalysisException, match="no dataset acme/towns"):
        load(spark, tmp_path, table="events", dataset="acme/towns")
    with pytest.raises(AnalysisException, match="goes with the table events"):
        load(spark, tmp_path, table="nodes", dataset="acme/cities")


def test_a_schema_of_ones_own_is_refused(
    spark: SparkSession, folder: Path, repo: Repository
) -> None:
    del repo
    frame = spark.read.format("icestream").schema("lat double").load(str(folder))

    with pytest.raises(AnalysisException, match="read without a schema"):
        frame.count()


def test_types_of_columns_follow_those_of_arrays(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "types"
    session = Repository.create(local_filesystem_storage(str(place))).writable_session("main")
    root = zarr.group(session.store)
    values = {
        "u8": np.array([1, 2**64 - 1], "u8"),
        "f2": np.array([0.5, 2], "f2"),
        "i1": np.array([-1, 1], "i1"),
        "flag": np.array([True, False]),
        "when": np.array(["2024-05-01", "NaT"], "M8[s]"),
    }
    for name, data in values.items():
        root.create_array(name, data=data, dimension_names=["x"])
    root.create_array("name", shape=(2,), dtype="str", dimension_names=["x"])[:] = ["a", "é"]
    session.commit("types")

    frame = load(spark, place)
    rows = [row.asDict() for row in frame.orderBy("x").collect()]

    assert dict(frame.dtypes)["u8"] == "decimal(20,0)"
    assert [int(row["u8"]) for row in rows] == [1, 2**64 - 1]
    assert [(r["f2"], r["i1"], r["flag"], r["name"]) for r in rows] == [
        (0.5, -1, True, "a"),
        (2.0, 1, False, "é"),
    ]
    assert [row["when"] is None for row in rows] == [False, True]


def test_columns_that_sql_cannot_tell_apart_are_told_when_they_are_loaded(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "case"
    repo = Repository.create(local_filesystem_storage(str(place)))
    with repo.transaction("main", message="case") as store:
        root = zarr.group(store)
        for name in ("T", "t"):
            root.create_array(name, data=np.arange(3), dimension_names=["x"])

    with pytest.raises(AnalysisException, match="'T' and 't' differ only in case"):
        load(spark, place)
    assert load(spark, place, variables="t").columns == ["x", "t"]


def test_the_text_of_a_selection_reaches_whole_numbers_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    cell = 617700169958293504
    place = tmp_path / "hexagons"
    repo = Repository.create(local_filesystem_storage(str(place)))
    with repo.transaction("main", message="hexagons") as store:
        root = zarr.group(store)
        numbers = np.array([cell - 1, cell, cell + 1], "u8")
        root.create_array("h3", data=numbers, dimension_names=["h3"])
        root.create_array("v", data=np.arange(3), dimension_names=["h3"])

    chosen = load(spark, place, select=f'{{"h3": {cell}}}').collect()
    (given,) = chosen
    again = read_array(spark, repo, "/v", sel={"h3": given.h3}).collect()

    assert [(int(row.h3), row.v) for row in chosen] == [(cell, 1)]
    assert again == chosen
