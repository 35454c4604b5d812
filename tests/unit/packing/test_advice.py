"""What sets and splits cost, when limits are reached, and what is proposed."""

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from icestream.model.manifest_conditions import ManifestSplitCondition as Arrays
from icestream.model.manifest_conditions import ManifestSplitDimCondition as Dim
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.packing.advice import Goals, advise, propose
from icestream.packing.format_limits import format_limits
from icestream.packing.planned_pieces import PackingPlan
from icestream.packing.prediction import predict
from icestream.packing.workloads import ArrayFacts, Workload

TODAY = date(2026, 3, 1)
UNSPLIT = PackingPlan(ChunkManifests((ManifestSet("default", split_oversized=False),)))


def growing(path="/temperature", steps=1000, cross_section=100, per_append=1.0):
    """Return an array of (time, y, x) that grows in time."""
    grid = (steps, cross_section // 10, 10)
    return ArrayFacts(
        path=path,
        grid=grid,
        references=steps * cross_section,
        dimension_names=("time", "y", "x"),
        chunks_per_append=per_append,
    )


def coordinate(path, chunks=1):
    return ArrayFacts(path=path, grid=(chunks,), references=chunks)


def workload(*arrays, appends_per_day=24.0, **facts):
    return Workload(arrays=arrays, appends_per_day=appends_per_day, **facts)


def split(chunks):
    rules = ((Arrays.AnyArray(), ((Dim.DimensionName("time"), chunks),)),)
    return PackingPlan(splitting=ManifestSplittingConfig(rules))


# -- growth ---------------------------------------------------------------------------------------


def test_arrays_grow_with_appends_and_keep_their_density():
    sparse = ArrayFacts(path="/a", grid=(10, 4), references=20, chunks_per_append=2)

    later = sparse.grown(5)

    assert later.grid == (20, 4)
    assert later.references == 40
    assert sparse.references_per_append == 4


def test_an_array_that_is_planned_and_empty_is_filled_by_appends():
    planned = ArrayFacts(path="/a", grid=(0, 4), references=0, chunks_per_append=1)

    assert planned.grown(10).references == 40


def test_a_workload_grows_by_its_appends_per_day():
    later = workload(growing(), coordinate("/y"), commits=5).after(days=10)

    assert [array.grid[0] for array in later.arrays] == [1240, 1]
    assert later.commits == 245


# -- prediction -----------------------------------------------------------------------------------


def test_coordinates_share_a_manifest_and_reads_of_them_do_not_depend_on_large_arrays():
    names = [f"/c{i}" for i in range(5000)]
    costs = [
        predict(workload(growing(steps=steps), *map(coordinate, names)), UNSPLIT)
        for steps in (1000, 100_000)
    ]

    assert costs[0].sets["default"].manifests == 1
    plan = PackingPlan()
    small, large = (
        predict(workload(growing(steps=steps), *map(coordinate, names)), plan).coordinate_read
        for steps in (1000, 9000)
    )
    assert small is not None
    assert small == large
    assert (small.requests, small.references) == (3, 5000)


def test_an_append_to_an_unsplit_array_writes_all_of_it_again():
    cost = predict(workload(growing(steps=100_000)), UNSPLIT).commit

    assert cost.manifests == 1
    assert cost.references == 100_000 * 100 + 100
    assert cost.num_bytes > cost.references * 15


def test_an_append_to_a_split_array_writes_one_cell_however_large_the_array_is():
    costs = [
        predict(workload(growing(steps=steps)), split(50)).commit for steps in (10_000, 90_010)
    ]

    assert [cost.manifests for cost in costs] == [1, 1]
    assert [cost.references for cost in costs] == [5000, 5000]


def test_a_cell_that_has_just_begun_costs_as_much_as_when_it_is_full():
    """Costs are what a commit writes at most."""
    begun, full = (
        predict(workload(growing(steps=steps)), split(50)).commit for steps in (10_001, 10_050)
    )

    assert begun.references == full.references == 5000


def test_more_cells_than_can_be_packed_are_counted():
    predicted = predict(workload(growing(steps=1_000_000)), split(1))

    assert predicted.total.manifests == 1_000_000
    assert predicted.total.references == 100_000_000
    assert predicted.commit.manifests == 1
    assert predicted.largest_manifest == 100


def test_manifests_are_those_that_packing_gives():
    arrays = [growing(f"/v{i}", steps=100) for i in range(3)]

    predicted = predict(workload(*arrays), split(25))

    # pieces of the same period share a manifest: 3 * 2500 references
    assert predicted.total.manifests == 4
    assert predicted.largest_manifest == 7500
    assert predicted.commit.manifests == 1


def test_a_workload_without_arrays_costs_what_opening_costs():
    predicted = predict(workload(), PackingPlan())

    assert predicted.total.manifests == predicted.commit.references == 0
    assert predicted.chunk_read is predicted.coordinate_read is None


# -- limits ---------------------------------------------------------------------------------------


def limit(name, *arrays, plan=UNSPLIT, **facts):
    (found,) = [
        one for one in format_limits(workload(*arrays, **facts), plan, TODAY) if one.name == name
    ]
    return found


VISITED = "visited bytes of one manifest"


def test_a_manifest_that_grows_reaches_the_size_that_readers_accept():
    """100 references of 186 bytes an hour: 2^32 bytes in 26 years, less what is there."""
    found = limit(VISITED, growing())

    per_append = 100 * (74 + 4 * 3 + 100)
    days = (2**32 - found.value) / per_append / 24
    assert found.value == 1000 * per_append
    assert found.reached_on is not None
    assert abs(found.reached_on - (TODAY + timedelta(days=days))) < timedelta(days=30)
    assert not found.is_near(TODAY, years=20)
    assert found.is_near(TODAY, years=30)


def test_older_readers_are_reached_first():
    older = limit(f"{VISITED}, icechunk up to 2.1", growing())
    newer = limit(VISITED, growing())

    assert older.reached_on is not None
    assert newer.reached_on is not None
    assert older.reached_on < newer.reached_on


def test_manifests_of_a_split_array_never_reach_it():
    assert limit(VISITED, growing(), plan=split(50)).reached_on is None


def test_a_limit_that_is_exceeded_is_reached_today():
    assert limit(VISITED, growing(steps=10_000_000)).reached_on == TODAY


def test_the_history_reaches_the_number_of_snapshots_that_older_readers_accept():
    found = limit("snapshots of the history, icechunk up to 2.1", growing(), commits=999_976)

    assert found.reached_on == TODAY + timedelta(days=1)


def test_a_commit_of_very_many_chunks_is_too_much_for_its_log():
    found = limit("changed chunks of one commit", growing(cross_section=60_000_000))

    assert found.reached_on == TODAY


def test_a_dimension_has_room_for_a_number_of_chunks():
    found = limit("chunks along one dimension", growing(per_append=10_000_000.0, cross_section=10))

    assert found.is_near(TODAY, years=1)


# -- proposals ------------------------------------------------------------------------------------


def test_a_proposal_bounds_commits_and_reads():
    arrays = [growing(f"/v{i}", steps=20_000) for i in range(20)]
    facts = workload(*arrays, *(coordinate(f"/c{i}") for i in range(10)))

    advice = advise(facts, UNSPLIT, Goals(years=2), TODAY)

    assert advice.later.commit.references > 40_000_000
    assert advice.proposed.commit.references <= 1_000_000 + 50_000
    assert advice.proposed.chunk_read is not None
    assert advice.proposed.chunk_read.references <= 200_000
    assert advice.proposed.coordinate_read is not None
    assert advice.proposed.coordinate_read.references == 10


def test_a_proposal_splits_where_arrays_grow():
    column = ArrayFacts(
        path="/profile.v2",
        grid=(10, 1_000_000),
        references=10**7,
        append_axis=1,
        chunks_per_append=1,
    )

    splitting = propose(workload(column), Goals(max_manifest_size=100_000)).splitting

    assert splitting is not None
    ((condition, dims),) = splitting.split_sizes or ()
    assert condition.matches("/profile.v2")
    assert not condition.matches("/profile_v2")
    assert not condition.matches("/group/profile.v2")
    assert dims == ((Dim.Axis(1), 10_000),)


def test_a_step_that_is_too_large_for_a_manifest_is_split_too():
    wide = growing(steps=50, cross_section=1_000_000)

    plan = propose(workload(wide), Goals(max_manifest_size=100_000))

    assert predict(workload(wide), plan).largest_manifest <= 100_000


def test_small_repositories_are_left_whole():
    plan = propose(workload(coordinate("/x"), coordinate("/y")), Goals())

    assert plan.splitting is None
    assert [one.name for one in plan.completed.sets] == ["coordinates", "default"]


def test_very_many_small_arrays_get_more_than_one_manifest():
    facts = workload(*(coordinate(f"/c{i}", 100) for i in range(2000)))

    predicted = predict(facts, propose(facts, Goals()))

    assert set(predicted.sets) == {"coordinates"}
    assert predicted.total.manifests == 4


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**5), st.integers(1, 300), st.sampled_from([0.0, 0.5, 3.0])),
        max_size=5,
    )
)
def test_proposals_are_valid_and_never_larger_than_they_say(drawn):
    arrays = [
        growing(f"/v{i}", steps, 10 * tens, per_append)
        for i, (steps, tens, per_append) in enumerate(drawn)
    ]
    facts = workload(*arrays).after(365)

    plan = propose(facts, Goals())

    assert list(plan.chunk_manifests.faults()) == []
    assert predict(facts, plan).largest_manifest <= 1_000_000
    assert predict(facts, plan).commit.references <= 2_000_000
