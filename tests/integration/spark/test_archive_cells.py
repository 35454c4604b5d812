"""Queries over the arrays of an archive, at the snapshot that its ledger recorded."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession
from tests.archive_builders import Form, daily_archive, write_days
from tests.ingest_builders import archive
from tests.transforms import added, derive, readings, rows_of, set_transform, workspace_in

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.publishing.run_snapshots import run_metadata
from icestream.ingest.runs import run_archive
from icestream.ledger import Dataset, TransformOutput, TransformPlan, Workspace
from icestream.repository.repository import Repository
from icestream.spark.transforms.archive_cells import cells_of
from icestream.spark.transforms.archive_places import ArchivePlaces
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import replay
from icestream.spark.transforms.transactions import transform
from icestream.storage import local_filesystem_storage

QUERY = """
select f.event_time, f.value as file, c.sst
from files f join files_cells c on c.x = f.value
"""


def ingest(
    dataset: Dataset,
    inventory: Dataset,
    repo: Repository,
    numbers: list[int],
    *,
    more: Mapping[str, float] | None = None,
) -> None:
    """Record files, and commit an array with a cell for each; its values say which run it was."""
    inventory.add_data(readings(numbers))
    plan = dataset.plan_transform([inventory])
    assert isinstance(plan, TransformPlan)
    dataset.write_transform(plan, TransformOutput(rows=readings(numbers)))
    metadata = run_metadata(archive().name, dataset.head, numbers[-1])
    with repo.transaction("main", message="run", metadata=metadata) as store:
        group = zarr.open_group(store, mode="a")
        group.create_array(
            "x", data=np.arange(5), dimension_names=["x"], overwrite=True, chunks=(5,)
        )
        for name, value in {"sst": numbers[-1], **(more or {})}.items():
            values = np.full(5, float(value))
            group.create_array(
                name, data=values, dimension_names=["x"], overwrite=True, chunks=(5,)
            )


def archive_ledger(folder: Path) -> tuple[Workspace, Dataset, Dataset]:
    """Return a workspace with the two datasets of an archive, files last."""
    workspace = workspace_in(folder)
    inventory = workspace.create("inventory")
    declared = set_transform(
        encode_archive(archive()).decode(),
        inputs=[("inventory", "inventory")],
        engine="icestream-ingest",
    )
    return workspace, inventory, derive(workspace, "files", declared)


def test_each_transaction_reads_the_array_of_its_block(spark: SparkSession, tmp_path: Path) -> None:
    engine, (workspace, inventory, files) = SqlEngine(spark), archive_ledger(tmp_path)
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    derived = derive(workspace, "values", set_transform(QUERY, inputs=[("files", "files")]))
    places = ArchivePlaces(repositories={files.dataset_id: repo})
    ingest(files, inventory, repo, [0, 1])

    first = added(transform(derived, [files], engine, places=places))
    ingest(files, inventory, repo, [2])
    ingest(files, inventory, repo, [3])
    transform(derived, [files], engine, places=places)
    report = replay(derived, [files], engine, places=places)

    assert first.record_count == 2
    assert rows_of(derived, "file", "sst") == [(0, 1.0), (1, 1.0), (2, 3.0), (3, 3.0)]
    assert (report.replayed, report.problems) == (2, ())


def test_a_repository_without_the_snapshot_is_told(spark: SparkSession, tmp_path: Path) -> None:
    engine, (workspace, inventory, files) = SqlEngine(spark), archive_ledger(tmp_path)
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    other = Repository.create(local_filesystem_storage(str(tmp_path / "other")))
    derived = derive(workspace, "values", set_transform(QUERY, inputs=[("files", "files")]))
    ingest(files, inventory, repo, [0])

    with pytest.raises(NotFoundError, match="no snapshot for block"):
        transform(
            derived, [files], engine, places=ArchivePlaces(repositories={files.dataset_id: other})
        )


@pytest.mark.parametrize(
    ("query", "views"),
    [
        ("select * from files_cells", {"files_cells"}),
        ("select * from files_cells_sst", {"files_cells_sst"}),
        ("select * from FILES_CELLS_SST", {"files_cells_sst"}),
        ("select files_cells.x from files f, files_cells", {"files_cells"}),
        ("select * from `files_cells_sst`", {"files_cells_sst"}),
        ("select * from `files_cells_air temp`", {"files_cells_air temp"}),
        ("select * from files_cells_deep_salt", {"files_cells_deep_salt"}),
        ("select * from files_cells_sst, files_cells", {"files_cells", "files_cells_sst"}),
        ("select * from files -- not files_cells", set()),
        ("select /* files_cells */ 'files_cells', \"files_cells\" from files", set()),
        ("select 1 as my_files_cells, 2 as files_cellsx from files", set()),
        ("select * from files_cells_other", set()),
    ],
)
def test_views_are_found_by_their_whole_names(tmp_path: Path, query: str, views: set[str]) -> None:
    workspace, inventory, files = archive_ledger(tmp_path)
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    ingest(files, inventory, repo, [0], more={"air temp": 1, "deep/salt": 2})
    derived = derive(workspace, "values", set_transform(query, inputs=[("files", "files")]))
    plan = derived.plan_transform([files])
    assert isinstance(plan, TransformPlan)

    assert (
        cells_of(plan, [files], ArchivePlaces(repositories={files.dataset_id: repo})).keys()
        == views
    )


def test_one_view_is_not_of_two_arrays(tmp_path: Path) -> None:
    workspace, inventory, files = archive_ledger(tmp_path)
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    ingest(files, inventory, repo, [0], more={"deep/salt": 1, "deep_salt": 2})
    query = "select * from files_cells_deep_salt"
    derived = derive(workspace, "values", set_transform(query, inputs=[("files", "files")]))
    plan = derived.plan_transform([files])
    assert isinstance(plan, TransformPlan)

    with pytest.raises(InvalidInputError, match=r"two arrays, /deep.salt and /deep.salt"):
        cells_of(plan, [files], ArchivePlaces(repositories={files.dataset_id: repo}))


LEVELS = "select time as event_time, level from files_new_cells_level"
BOTH = """
select s.time as event_time, s.lat, s.lon, s.sst, l.level
from files_new_cells_sst s join files_cells_level l on l.time = s.time
"""
SMALL = Form(shape=(4, 6), chunks=(4, 6))


def write_levels(folder: Path, numbers: Iterable[int]) -> None:
    """Write daily files in which a second variable has no place, only a time."""
    for path, number in zip(write_days(folder, numbers, SMALL), numbers, strict=True):
        with h5py.File(path, "a") as file:
            level = file.create_dataset("level", data=np.array([number], "f4"))
            level.dims[0].attach_scale(file["time"])


def test_arrays_on_different_grids_have_views_of_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine, declared = SqlEngine(spark), daily_archive(tmp_path / "files", tmp_path / "repo")
    write_levels(tmp_path / "files", [1, 2])
    run_archive(declared)
    workspace = Workspace(local_filesystem_storage(str(tmp_path / "repo.ledger")))
    files = [("sst.ingest", "files")]
    levels = derive(workspace, "levels", set_transform(LEVELS, inputs=files))
    both = derive(workspace, "both", set_transform(BOTH, inputs=files))
    group = "select time as event_time, sst from files_cells"
    whole = derive(workspace, "whole", set_transform(group, inputs=files))
    new = set_transform(group.replace("cells", "new_cells"), inputs=files)
    new_whole = derive(workspace, "new.whole", new)

    transform(levels, workspace.inputs_of(levels), engine)
    transform(both, workspace.inputs_of(both), engine)
    write_levels(tmp_path / "files", [0, 3])
    run_archive(declared)
    transform(levels, workspace.inputs_of(levels), engine)

    assert rows_of(both, "level") == [(1.0,)] * 24 + [(2.0,)] * 24
    assert rows_of(levels, "level") == [(1.0,), (2.0,), (0.0,), (3.0,)]
    report = replay(levels, workspace.inputs_of(levels), engine)
    assert (report.replayed, report.problems) == (2, ())
    for derived, view in ((whole, "files_cells"), (new_whole, "files_new_cells")):
        told = f"{view}: variables are on different grids.*{view}_<array>"
        with pytest.raises(InvalidInputError, match=told):
            transform(derived, workspace.inputs_of(derived), engine)
