"""Derived arrays that follow their inputs, computed in this process."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from tests.derived_array_builders import Cube
from tests.unit.ledger.test_dataset_faults import Killed

from icestream.errors import AlreadyExistsError, ConflictError, IcestreamError
from icestream.ingest.array_derivation.declarations import ArrayPlace, Period
from icestream.ingest.lineage.graphs import Freshness, NodeKind
from icestream.ingest.lineage.reading import find_node, read_lineage
from icestream.ingest.publishing.steps import RunStep
from icestream.ledger.chain.planning import UpToDate
from icestream.ledger.dataset import Dataset
from icestream.repository.repository import Repository
from icestream.spark.derived_arrays import reductions
from icestream.spark.derived_arrays.pulling import (
    PulledArray,
    advance_with,
    pull_derived_array,
)
from icestream.spark.derived_arrays.replays import verify_derived_array
from icestream.storage import local_filesystem_storage

CF_METHODS = {
    "mean": "time: mean",
    "min": "time: minimum",
    "max": "time: maximum",
    "sum": "time: sum",
}
"""The conventions have none for counts."""


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    cube = Cube(tmp_path)
    cube.create(50)
    return cube


def pull(cube: Cube, dataset: Dataset, **how: Any) -> PulledArray | None:
    return pull_derived_array(cube.workspace, cube.workspace.open(dataset.dataset_id), None, **how)


def expected(cube: Cube, function: str = "mean") -> xr.DataArray:
    grouped = cube.daily().resample(time="MS")
    if function == "sum":
        return grouped.sum(min_count=1)
    found: xr.DataArray = getattr(grouped, function)()
    return found


@pytest.mark.parametrize("function", ["mean", "min", "max", "sum", "count"])
@pytest.mark.parametrize("chunk_length", [1, 2])
def test_a_derived_array_is_what_xarray_makes_of_its_input(
    cube: Cube, function: str, chunk_length: int
) -> None:
    dataset = cube.derive(function=function, chunk_length=chunk_length)

    pulled = pull(cube, dataset)

    assert pulled is not None
    assert pulled.num_chunks == pulled.num_chunks_of_all
    found = cube.monthly()["t"]
    xr.testing.assert_allclose(found, expected(cube, function).transpose(*found.dims))
    assert found.attrs["units"] == ("1" if function == "count" else "K")
    assert found.attrs.get("cell_methods") == CF_METHODS.get(function)
    assert found["time"].dt.month.values.tolist() == [12, 1, 2]
    assert found["lat"].values.tolist() == cube.daily()["lat"].values.tolist()


def test_only_chunks_whose_inputs_changed_are_computed_again(cube: Cube) -> None:
    dataset = cube.derive()
    pull(cube, dataset)

    cube.change(25, 3, 5, 99)  # its chunk has days of January only
    pulled = pull(cube, dataset)

    assert pulled is not None
    assert pulled.num_chunks == 1
    rows = cube.workspace.open("monthly").to_arrow()
    assert rows["chunk"].to_pylist()[-1] == "1/1/1"
    xr.testing.assert_allclose(cube.monthly()["t"], expected(cube))


def test_an_input_chunk_of_two_groups_makes_both_anew(cube: Cube) -> None:
    dataset = cube.derive()
    pull(cube, dataset)

    cube.change(10, 0, 0, 99)  # its chunk has days 10 to 19: December ends with day 11
    pulled = pull(cube, dataset)

    assert pulled is not None
    assert pulled.num_chunks == 2
    xr.testing.assert_allclose(cube.monthly()["t"], expected(cube))


def test_a_longer_input_makes_the_last_group_anew_and_adds_others(cube: Cube) -> None:
    dataset = cube.derive()
    first = pull(cube, dataset)

    cube.grow(95)
    pulled = pull(cube, dataset)

    assert first is not None
    assert first.num_chunks == 3 * 4
    assert pulled is not None
    assert pulled.num_chunks == 2 * 4  # February and March, in four chunks each
    xr.testing.assert_allclose(cube.monthly()["t"], expected(cube))


def freshness(cube: Cube) -> Freshness | None:
    graph = read_lineage(cube.workspace)
    return graph.by_id[find_node(graph, "monthly")].freshness


def test_what_is_up_to_date_stays_as_it_is(cube: Cube) -> None:
    dataset = cube.derive()
    pull(cube, dataset)
    head = cube.workspace.open("monthly").head
    session = cube.repository.writable_session("main")
    zarr.open_group(session.store, path="other", mode="a")
    session.commit("something else")

    assert pull(cube, dataset) is None
    assert cube.workspace.open("monthly").head == head
    assert len(cube.workspace.open("monthly.versions").to_arrow()) == 1
    assert freshness(cube) is Freshness.UP_TO_DATE
    cube.change(0, 0, 0, 50)
    assert freshness(cube) is Freshness.BEHIND


def test_coordinates_that_change_are_copied_again(cube: Cube) -> None:
    dataset = cube.derive()
    pull(cube, dataset)
    with cube.repository.transaction("main", message="moved") as store:
        latitudes = zarr.open_array(store, path="lat")
        latitudes[:] = np.asarray(latitudes[:]) + 0.5

    pulled = pull(cube, dataset)

    assert pulled is not None
    assert pulled.num_chunks == 0
    assert cube.monthly()["lat"].values.tolist() == cube.daily()["lat"].values.tolist()
    assert pull(cube, dataset) is None
    opened = cube.workspace.open("monthly")
    assert opened.verify(inputs=cube.workspace.inputs_of(opened)).is_valid
    assert verify_derived_array(opened, None).is_valid


def test_the_commit_and_the_ledger_name_each_other(cube: Cube) -> None:
    dataset = cube.derive()

    pulled = pull(cube, dataset)

    assert pulled is not None
    repo = Repository.open(local_filesystem_storage(str(cube.folder / "derived")))
    newest = next(iter(repo.ancestry(branch="main")))
    opened = cube.workspace.open("monthly")
    assert newest.metadata["icestream"]["block"] == str(opened.head)
    assert opened.verify(inputs=cube.workspace.inputs_of(opened)).is_valid
    rows = opened.to_arrow()
    tip = cube.repository.lookup_branch("main")
    assert set(rows["input_snapshot"].to_pylist()) == {tip}
    assert all(digest.startswith("f1620") for digest in rows["digest"].to_pylist())


@pytest.mark.parametrize("step", [RunStep.BLOCK_PREPARED, RunStep.COMMITTED, RunStep.HEAD_MOVED])
def test_a_pull_that_is_killed_is_finished_or_repeated(cube: Cube, step: RunStep) -> None:
    dataset = cube.derive()

    def die(done: RunStep) -> None:
        if done is step:
            raise Killed

    with pytest.raises(Killed):
        pull(cube, dataset, after_step=die)
    pull(cube, dataset)

    opened = cube.workspace.open("monthly")
    assert len(opened.to_arrow()) == 3 * 4
    assert opened.verify(inputs=cube.workspace.inputs_of(opened)).is_valid
    xr.testing.assert_allclose(cube.monthly()["t"], expected(cube))


def test_groups_of_steps_have_the_coordinate_of_their_first(cube: Cube) -> None:
    dataset = cube.derive(group=None, steps=20)

    pull(cube, dataset)

    found = cube.monthly()["t"]
    daily = cube.daily()
    assert found.shape[0] == 3
    assert np.array_equal(found["time"], daily["time"][::20])
    np.testing.assert_allclose(found[2], daily[40:].mean("time"))


def test_a_function_of_ones_own_is_found_by_its_name(cube: Cube) -> None:
    dataset = cube.derive(function="tests.derived_array_builders:twice_the_largest")

    pull(cube, dataset)

    np.testing.assert_allclose(cube.monthly()["t"][2], 2 * cube.daily()[43:].max("time"))


def test_the_output_may_be_in_the_repository_of_the_input(cube: Cube) -> None:
    dataset = cube.derive(output=ArrayPlace(repository=cube.address, array="/means/t"))

    pull(cube, dataset)

    assert pull(cube, dataset) is None
    cube.change(0, 0, 0, 50)
    pulled = pull(cube, dataset)
    assert pulled is not None
    assert pulled.num_chunks == 1
    assert read_lineage(cube.workspace).returning
    # its own commits are no news for it
    assert freshness(cube) is Freshness.UP_TO_DATE


def test_the_lineage_leads_through_a_derived_array(cube: Cube) -> None:
    pull(cube, cube.derive())

    graph = read_lineage(cube.workspace)

    names = {(graph.by_id[e.source].name, graph.by_id[e.target].name) for e in graph.edges}
    assert names == {
        (cube.address, "monthly.versions"),
        ("monthly.versions", "monthly"),
        ("monthly", str(cube.folder / "derived")),
    }
    node = graph.by_id[find_node(graph, "monthly")]
    assert (node.kind, node.freshness) == (NodeKind.ARRAY, Freshness.UP_TO_DATE)
    cube.change(0, 0, 0, 5)
    graph = read_lineage(cube.workspace)
    node = graph.by_id[find_node(graph, "monthly")]
    assert node.freshness is Freshness.BEHIND
    assert node.reason == f"1 versions of {cube.address} are not looked at yet"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"along": "height"}, "no dimension 'height'; it has time, lat, lon"),
        ({"along": "lon"}, "'lon' has no coordinate that tells times; group it by steps"),
        ({"along": "lat"}, "'lat' has a coordinate of type double, which does not tell times"),
        ({"function": "no.such:function"}, "no function no.such:function"),
        ({"function": "numpy:multiply"}, r"numpy:multiply made \(\d"),
    ],
)
def test_what_cannot_be_derived_is_refused_and_nothing_is_visible(
    cube: Cube, changes: dict[str, Any], told: str
) -> None:
    dataset = cube.derive(**changes)

    with pytest.raises(IcestreamError, match=told):
        pull(cube, dataset)
    assert cube.workspace.open("monthly").state.data_event is None


def test_arrays_of_others_are_not_touched(cube: Cube) -> None:
    pull(cube, cube.derive())
    other = cube.derive(name="yearly", group=Period.YEAR)

    with pytest.raises(AlreadyExistsError, match="not of this derivation"):
        pull(cube, other)


def check_one_was_published(cube: Cube, num_pulls: int = 1) -> None:
    opened = cube.workspace.open("monthly")
    assert len(opened.to_arrow()) == 12 * num_pulls
    assert len(cube.workspace.open("monthly.versions").to_arrow()) == num_pulls
    xr.testing.assert_allclose(cube.monthly()["t"], expected(cube))
    assert opened.verify(inputs=cube.workspace.inputs_of(opened)).is_valid
    assert verify_derived_array(opened, None).is_valid
    assert pull(cube, opened) is None


def test_of_two_pulls_at_once_one_is_published(cube: Cube) -> None:
    dataset = cube.derive()

    def meddle(step: RunStep) -> None:
        if step is RunStep.BLOCK_PREPARED:
            pull(cube, dataset)

    with pytest.raises(ConflictError, match="another pull of monthly was published meanwhile"):
        pull(cube, dataset, after_step=meddle)
    check_one_was_published(cube)


@pytest.mark.parametrize("num_pulls", [1, 2])
def test_a_pull_while_another_one_computes_wins(
    cube: Cube, monkeypatch: pytest.MonkeyPatch, num_pulls: int
) -> None:
    dataset = cube.derive()
    for _ in range(num_pulls - 1):
        pull(cube, dataset)
        with cube.repository.transaction("main", message="another scale") as store:
            zarr.open_array(store, path="t").attrs["scale_factor"] = 2.0
    compute = reductions._KNOWN["mean"]

    def meddle(block: Any, axis: int) -> Any:
        with monkeypatch.context() as once:
            once.setitem(reductions._KNOWN, "mean", compute)
            pull(cube, dataset)
        return compute(block, axis)

    with monkeypatch.context() as patch:
        patch.setitem(reductions._KNOWN, "mean", meddle)
        with pytest.raises(ConflictError, match="nothing of this pull is in force: pull again"):
            pull(cube, dataset)
    check_one_was_published(cube, num_pulls)


def test_of_two_pulls_in_threads_no_chunk_is_recorded_twice(cube: Cube) -> None:
    dataset = cube.derive()

    def attempt(_: int) -> str:
        try:
            pull(cube, dataset)
        except ConflictError as error:
            return error.message
        return ""

    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(attempt, range(2)))

    assert "" in told
    assert all("pull again" in message for message in told if message)
    check_one_was_published(cube)


def test_derived_arrays_are_pulled_among_other_datasets(cube: Cube) -> None:
    dataset = cube.derive()
    advance = advance_with(cube.workspace, None)

    added = advance(dataset)
    again = advance(dataset)

    assert isinstance(added, tuple)
    assert added[0].record_count == 12
    assert added[0].new_head == cube.workspace.open("monthly").head
    assert isinstance(again, UpToDate)
