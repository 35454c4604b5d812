"""Datasets that are known by names, under one prefix."""

from pathlib import Path

import pyarrow as pa
import pytest

from icestream.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
)
from icestream.ledger import Dataset, DatasetKind, TransformPlan, Workspace, read_snapshots
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage

TWO = b"""
kind: DatasetSnapshot
version: 1
content:
  name: acme/large.cities
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs:
    - datasetRef: acme/cities
      alias: cities
    transform:
      kind: Sql
      engine: spark
      query: select * from cities where size > 1
---
kind: DatasetSnapshot
version: 1
content:
  name: acme/cities
  kind: Root
  metadata:
  - kind: SetInfo
    description: cities of the world
"""


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return InMemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


@pytest.fixture
def workspace(storage: Storage) -> Workspace:
    return Workspace(storage)


def aliases(workspace: Workspace, pattern: str | None = None) -> list[str]:
    return [str(entry.alias) for entry in workspace.datasets(pattern)]


def test_a_dataset_has_a_folder_and_a_name(storage: Storage, workspace: Workspace) -> None:
    dataset = workspace.create("Acme/Cities")

    folder = f"datasets/{str(dataset.dataset_id).removeprefix('did:odf:')}"
    paths = {info.path for info in storage.list()}
    assert {f"{folder}/refs/head", f"{folder}/info/alias", "aliases/acme/cities"} <= paths
    assert aliases(workspace) == ["Acme/Cities"]


def test_datasets_are_found_by_name_and_by_id(workspace: Workspace) -> None:
    dataset = workspace.create("cities")

    for name in ("cities", "CITIES", str(dataset.dataset_id), dataset.dataset_id):
        assert workspace.open(name).head == dataset.head


def test_a_name_may_be_part_of_another(workspace: Workspace) -> None:
    for name in ("acme", "acme/cities", "acme.cities", "cities/acme"):
        workspace.create(name)

    assert aliases(workspace) == ["acme", "acme.cities", "acme/cities", "cities/acme"]
    assert aliases(workspace, "acme%") == ["acme", "acme.cities", "acme/cities"]
    assert aliases(workspace, "%/acme") == ["cities/acme"]


def test_an_unknown_name_is_not_found(workspace: Workspace) -> None:
    with pytest.raises(NotFoundError, match="no dataset towns"):
        workspace.open("towns")
    with pytest.raises(InvalidInputError, match="no name of a dataset"):
        workspace.open("no name")


def test_a_name_is_given_once(storage: Storage, workspace: Workspace) -> None:
    workspace.create("cities")
    before = {info.path for info in storage.list()}

    with pytest.raises(AlreadyExistsError, match="choose another name"):
        workspace.create("Cities")

    assert {info.path for info in storage.list()} == before


def test_definitions_of_one_file_may_read_each_other(workspace: Workspace) -> None:
    root, derivative = workspace.create_all(read_snapshots(TWO))

    assert (root.kind, derivative.kind) == (DatasetKind.ROOT, DatasetKind.DERIVATIVE)
    transform = derivative.state.transform
    assert transform is not None
    assert transform.inputs[0].dataset_ref == str(root.dataset_id)
    assert transform.inputs[0].alias == "cities"


def test_nothing_is_created_if_a_name_is_taken(workspace: Workspace) -> None:
    workspace.create("acme/large.cities")

    with pytest.raises(AlreadyExistsError, match=r"acme/large\.cities"):
        workspace.create_all(read_snapshots(TWO))

    assert aliases(workspace) == ["acme/large.cities"]


def test_the_inputs_of_a_dataset_are_opened(workspace: Workspace) -> None:
    root, derivative = workspace.create_all(read_snapshots(TWO))
    root.add_data(pa.table({"city": ["kyiv"], "size": [3]}))

    plan = derivative.plan_transform(workspace.inputs_of(derivative))

    assert isinstance(plan, TransformPlan)
    assert plan.query_inputs[0].new_block_hash == root.head
    assert workspace.inputs_of(root) == []


def test_inputs_that_are_not_here_are_told_or_left_out(workspace: Workspace) -> None:
    _, derivative = workspace.create_all(read_snapshots(TWO))
    workspace.delete("acme/cities")

    with pytest.raises(NotFoundError):
        workspace.inputs_of(derivative)
    assert workspace.inputs_of(derivative, missing_ok=True) == []


def test_a_transform_of_unknown_datasets_is_refused(workspace: Workspace) -> None:
    derivative, _ = read_snapshots(TWO)

    with pytest.raises(InvalidInputError, match="acme/cities"):
        workspace.create(derivative)

    assert aliases(workspace) == []


def test_definitions_that_cannot_be_ordered_are_refused(workspace: Workspace) -> None:
    derivative, root = read_snapshots(TWO)
    (other,) = read_snapshots(
        TWO.partition(b"---")[0]
        .replace(b"large.cities", b"x")
        .replace(b"datasetRef: acme/cities", b"datasetRef: acme/y")
    )
    (circle,) = read_snapshots(
        TWO.partition(b"---")[0]
        .replace(b"large.cities", b"y")
        .replace(b"datasetRef: acme/cities", b"datasetRef: acme/x")
    )

    with pytest.raises(InvalidInputError, match="circle: acme/x, acme/y"):
        workspace.create_all([root, derivative, other, circle])
    with pytest.raises(InvalidInputError, match="one name"):
        workspace.create_all([root, root])
    assert aliases(workspace) == []


def test_a_dataset_is_renamed_without_a_trace_in_its_metadata(workspace: Workspace) -> None:
    dataset = workspace.create("cities")
    workspace.create("towns")

    with pytest.raises(AlreadyExistsError, match="towns"):
        workspace.rename("cities", "towns")
    workspace.rename("cities", "acme/cities")
    workspace.rename("acme/cities", "Acme/Cities")

    assert aliases(workspace) == ["Acme/Cities", "towns"]
    renamed = workspace.open("acme/cities")
    assert (renamed.head, renamed.alias) == (dataset.head, "Acme/Cities")


def test_a_deleted_dataset_leaves_nothing(storage: Storage, workspace: Workspace) -> None:
    dataset = workspace.create("cities")
    workspace.delete("cities")

    assert list(storage.list()) == []
    with pytest.raises(NotFoundError):
        Dataset.open(workspace.dataset_storage(dataset.dataset_id))


def test_a_damaged_name_is_told(workspace: Workspace) -> None:
    workspace.create("cities")
    workspace.storage.put("aliases/_/cities", b"?")

    with pytest.raises(FormatError, match="aliases/_/cities names no dataset"):
        workspace.open("cities")
