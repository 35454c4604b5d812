"""What is staged and then committed is what the same edits of a session would have made."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.builders import array_json
from tests.tables import Refs, refs_of, virtual_refs

from icestream.model.chunk_refs import ChunkRef, InlineRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.config import RepositoryConfig
from icestream.model.index_maps import IndexMap
from icestream.model.manifest_conditions import ManifestSplitCondition, ManifestSplitDimCondition
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.repository.staged.cells import StagedArrays
from icestream.repository.staged.commits import put_staged_array
from icestream.repository.staged.planning import plan_cells
from icestream.repository.staged.publishing import publish_staged, split_into_commits
from icestream.repository.staged.writing import write_cell
from icestream.storage import in_memory_storage

Grid = tuple[int, int]
Box = tuple[tuple[int, int], ...]

grids = st.tuples(st.integers(1, 7), st.integers(1, 3))
some_refs = st.one_of(st.binary(min_size=1, max_size=3).map(InlineRef), virtual_refs)


@st.composite
def refs_in(draw: st.DrawFn, grid: Grid) -> Refs:
    places = list(product(*map(range, grid)))
    chosen = draw(st.lists(st.sampled_from(places), unique=True))
    return {place: draw(some_refs) for place in chosen}


@st.composite
def axes(draw: st.DrawFn, length: int) -> list[int] | None:
    if draw(st.booleans()):
        return None
    targets, last = [], -1
    for _ in range(draw(st.integers(length - 1, length + 1))):
        step = draw(st.integers(0, 2))
        last += step
        targets.append(last if step else -1)
    return targets


@st.composite
def configurations(draw: st.DrawFn) -> RepositoryConfig:
    config = RepositoryConfig()
    default = ManifestSet("default", max_manifest_size=draw(st.integers(1, 30)))
    config.chunk_manifests = ChunkManifests((default,))
    sizes = draw(st.dictionaries(st.integers(0, 1), st.integers(1, 3), max_size=2))
    if sizes:
        dims = tuple((ManifestSplitDimCondition.Axis(axis), n) for axis, n in sizes.items())
        rules = ((ManifestSplitCondition.AnyArray(), dims),)
        config.manifest = ManifestConfig(splitting=ManifestSplittingConfig(rules))
    return config


@dataclass(frozen=True)
class Change:
    """An array before, and what happens to it."""

    grid: Grid
    first: Refs
    second: Refs
    other: Refs
    new_grid: Grid
    axes: list[list[int] | None]
    dropped: list[Box]
    added: Refs
    is_new: bool
    edits_other: bool

    @property
    def index_map(self) -> IndexMap:
        columns = (None if axis is None else np.array(axis, np.int64) for axis in self.axes)
        return IndexMap(tuple(columns), tuple(self.dropped))

    def target(self, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return where a chunk goes, said as plainly as can be."""
        for box in self.dropped:
            if all(lo <= i < hi for i, (lo, hi) in zip(index, box, strict=True)):
                return None
        new = []
        for i, axis, end in zip(index, self.axes, self.new_grid, strict=True):
            place = i if axis is None else (axis[i] if i < len(axis) else -1)
            if not 0 <= place < end:
                return None
            new.append(place)
        return tuple(new)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    grid, new_grid = draw(grids), draw(grids)
    ranges = st.tuples(st.integers(0, 6), st.integers(0, 7))
    return Change(
        grid=grid,
        first=draw(refs_in(grid)),
        second=draw(refs_in(grid)),
        other=draw(refs_in((2, 2))),
        new_grid=new_grid,
        axes=[draw(axes(n)) for n in grid],
        dropped=draw(st.lists(st.tuples(ranges, ranges), max_size=1)),
        added=draw(refs_in(new_grid)),
        is_new=draw(st.integers(0, 5)) == 0,
        edits_other=draw(st.booleans()),
    )


def repository_before(change: Change, configs: Sequence[RepositoryConfig]) -> Repository:
    storage = in_memory_storage()
    repo = Repository.create(storage, config=configs[0])
    session = repo.writable_session("main")
    store = session._copy
    store.put_metadata("/other", array_json((2, 2), (1, 1)))
    put(session, "/other", change.other)
    if not change.is_new:
        store.put_metadata("/a", array_json(change.grid, (1, 1)))
        put(session, "/a", change.first)
    session.commit("first")
    if change.second and not change.is_new:
        session = Repository.open(storage, config=configs[1]).writable_session("main")
        put(session, "/a", change.second)
        session.commit("second")
    return Repository.open(storage, config=configs[2])


def put(session: Session, path: str, refs: dict[Any, ChunkRef | None]) -> None:
    if refs:
        session._copy.put_table(path, ChunkTable.from_refs(refs, 2))


def new_document(change: Change) -> bytes:
    return array_json(change.new_grid, (1, 1), attributes={"changed": True})


def edit_ordinarily(session: Session, change: Change) -> None:
    before = {} if change.is_new else refs_of(session.reference_table("/a", stored=True))
    session._copy.put_metadata("/a", new_document(change))
    edits: Refs = {}
    for index in before:
        inside = all(i < n for i, n in zip(index, change.new_grid, strict=True))
        if inside and change.target(index) != index:
            edits[index] = None
    for index, ref in before.items():
        target = change.target(index)
        if target is not None and target != index:
            edits[target] = ref
    put(session, "/a", edits | change.added)


def stage(session: Session, change: Change) -> StagedArrays:
    before, after = put_staged_array(session, "/a", new_document(change))
    context = session._copy.context
    added = np.array([[(i, i + 1) for i in index] for index in change.added]).reshape(-1, 2, 2)
    index_map = None if change.is_new else change.index_map
    plan = plan_cells(before, after, context.packing, index_map=index_map, added=added)
    additions = [ChunkTable.from_refs({index: ref}, 2) for index, ref in change.added.items()]
    written = [
        write_cell(context.assets, pickle.loads(pickle.dumps(task)), additions, spec=2)
        for task in reversed(plan.tasks)
    ]
    assert sum(cell.num_added for cell in written) == len(change.added)
    return {"/a": (plan, written)}


def snapshot_of(repo: Repository) -> Any:
    return repo.readonly_session("main")._copy.snapshot


@pytest.mark.parametrize("max_chunks", [1_000_000, 3])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_staged_commits_are_like_ordinary_ones(data: st.DataObject, max_chunks: int) -> None:
    change = data.draw(changes())
    configs = [data.draw(configurations()) for _ in range(3)]
    ordinary, staged = (repository_before(change, configs) for _ in range(2))
    bases = [repo.lookup_branch("main") for repo in (ordinary, staged)]

    session = ordinary.writable_session("main")
    edit_ordinarily(session, change)
    staged_session = staged.writable_session("main")
    prepared = stage(staged_session, change)
    for one in (session, staged_session):
        if change.edits_other:
            put(one, "/other", {(0, 0): InlineRef(b"new")})
    session.commit("change")
    parts = split_into_commits(prepared, max_chunks)
    publish_staged(staged_session, parts, "change", {"block": 1})

    for path in ("/a", "/other"):
        expected, found = (
            refs_of(repo.readonly_session("main").reference_table(path, stored=True))
            for repo in (ordinary, staged)
        )
        assert found == expected
    expected_diff, found_diff = (
        repo.diff(from_snapshot_id=base, to_branch="main")
        for repo, base in zip((ordinary, staged), bases, strict=True)
    )
    assert found_diff == expected_diff
    assert next(staged.ancestry(branch="main")).metadata["block"] == 1
    check_manifests(staged)


def check_manifests(repo: Repository) -> None:
    """Check that each chunk is in one manifest at most, and that all are recorded, no more."""
    snapshot = snapshot_of(repo)
    arrays = [node for path, node in snapshot.nodes.items() if path in ("/a", "/other")]
    used = {ref.manifest_id for array in arrays for ref in array.manifests}
    assert used == snapshot.manifest_files.keys()
    for array in arrays:
        assert [*array.manifests] == sorted(array.manifests, key=lambda ref: ref.extents)
        for index in product(*map(range, array.num_chunks)):
            assert len(list(array.manifests_with(index))) <= 1
