"""Queries over the arrays of an archive, at the snapshot that its ledger recorded."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession
from tests.ingest_builders import archive
from tests.transforms import added, derive, readings, rows_of, set_transform, workspace_in

from icestream.errors import NotFoundError
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.publishing.run_snapshots import run_metadata
from icestream.ledger import Dataset, TransformOutput, TransformPlan
from icestream.repository.repository import Repository
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import replay
from icestream.spark.transforms.transactions import transform
from icestream.storage import local_filesystem_storage

QUERY = """
select f.event_time, f.value as file, c.sst
from files f join files_cells c on c.x = f.value
"""


def ingest(dataset: Dataset, inventory: Dataset, repo: Repository, numbers: list[int]) -> None:
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
        values = np.full(5, float(numbers[-1]))
        group.create_array("sst", data=values, dimension_names=["x"], overwrite=True, chunks=(5,))


def test_each_transaction_reads_the_array_of_its_block(spark: SparkSession, tmp_path: Path) -> None:
    engine, workspace = SqlEngine(spark), workspace_in(tmp_path)
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    inventory = workspace.create("inventory")
    declared = set_transform(
        encode_archive(archive()).decode(),
        inputs=[("inventory", "inventory")],
        engine="icestream-ingest",
    )
    files = derive(workspace, "files", declared)
    derived = derive(workspace, "values", set_transform(QUERY, inputs=[("files", "files")]))
    repositories = {files.dataset_id: repo}
    ingest(files, inventory, repo, [0, 1])

    first = added(transform(derived, [files], engine, repositories=repositories))
    ingest(files, inventory, repo, [2])
    ingest(files, inventory, repo, [3])
    transform(derived, [files], engine, repositories=repositories)
    report = replay(derived, [files], engine, repositories=repositories)

    assert first.record_count == 2
    assert rows_of(derived, "file", "sst") == [(0, 1.0), (1, 1.0), (2, 3.0), (3, 3.0)]
    assert (report.replayed, report.problems) == (2, ())


def test_a_repository_without_the_snapshot_is_told(spark: SparkSession, tmp_path: Path) -> None:
    engine, workspace = SqlEngine(spark), workspace_in(tmp_path)
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    other = Repository.create(local_filesystem_storage(str(tmp_path / "other")))
    inventory = workspace.create("inventory")
    declared = set_transform(
        encode_archive(archive()).decode(),
        inputs=[("inventory", "inventory")],
        engine="icestream-ingest",
    )
    files = derive(workspace, "files", declared)
    derived = derive(workspace, "values", set_transform(QUERY, inputs=[("files", "files")]))
    ingest(files, inventory, repo, [0])

    with pytest.raises(NotFoundError, match="no snapshot for block"):
        transform(derived, [files], engine, repositories={files.dataset_id: other})
