"""A repository against a model of plain dicts; at the end the icechunk package reads it too."""

import shutil
import tempfile
from typing import Any

import icechunk
import numpy as np
import zarr
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.builders import array_of

from icestream import BasicConflictSolver, Repository, RepositoryConfig, VersionSelection
from icestream.storage import local_filesystem_storage

FILL = -1
NAMES = st.sampled_from(["a", "b", "g/a", "g/b"])
Model = dict[str, list[int]]


def contents(session: Any) -> Model:
    """Return all arrays of a session."""
    try:
        root = zarr.open_group(session.store, mode="r")
    except FileNotFoundError:
        return {}
    found = {
        path: node[:].tolist() for path, node in root.members(max_depth=None) if _is_array(node)
    }
    return dict(sorted(found.items()))


def _is_array(node: Any) -> bool:
    return isinstance(node, zarr.Array)


class RepositoryMachine(RuleBasedStateMachine):
    """Edits, commits, amends, branches, tags, forks and rivals, in any order."""

    tags = Bundle("tags")

    @initialize(threshold=st.sampled_from([0, 512]), spec=st.sampled_from([1, 2]))
    def create(self, threshold: int, spec: int) -> None:
        self.folder = tempfile.mkdtemp()
        self.spec = spec
        config = RepositoryConfig(inline_chunk_threshold_bytes=threshold)
        self.repo = Repository.create(
            local_filesystem_storage(self.folder), config, spec_version=spec
        )
        session = self.repo.writable_session("main")
        zarr.create_group(session.store)
        session.commit("root")
        self.committed: dict[str, Model] = {"main": {}}
        self.tagged: dict[str, Model] = {}
        self.branch = "main"
        self.start_session()

    def start_session(self) -> None:
        self.session = self.repo.writable_session(self.branch)
        self.model = {path: list(cells) for path, cells in self.committed[self.branch].items()}
        self.dirty = False

    # -- edits --------------------------------------------------------------------------------

    @rule(path=NAMES, cells=st.integers(1, 6))
    def create_array(self, path: str, cells: int) -> None:
        zarr.create_array(
            self.session.store,
            name=path,
            shape=(cells,),
            chunks=(2,),
            dtype="i4",
            fill_value=FILL,
            overwrite=True,
        )
        self.model[path] = [FILL] * cells
        self.dirty = True

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=st.integers(0, 100))
    def write(self, data: st.DataObject, value: int) -> None:
        path = data.draw(st.sampled_from(sorted(self.model)))
        cells = self.model[path]
        start = data.draw(st.integers(0, len(cells) - 1))
        stop = data.draw(st.integers(start + 1, len(cells)))
        array_of(self.session, path)[start:stop] = value
        cells[start:stop] = [value] * (stop - start)
        self.dirty = True

    @precondition(lambda self: self.model)
    @rule(data=st.data(), cells=st.integers(1, 8))
    def resize(self, data: st.DataObject, cells: int) -> None:
        path = data.draw(st.sampled_from(sorted(self.model)))
        array = array_of(self.session, path)
        old = len(self.model[path])
        # what a partly kept chunk holds behind the end is zarr's business: write it over
        array.resize((cells,))
        if cells > old:
            array[old:cells] = 0
        self.model[path] = self.model[path][:cells] + [0] * max(cells - old, 0)
        self.dirty = True

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.model)))
        del zarr.open_group(self.session.store)[path]
        del self.model[path]
        self.dirty = True

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=st.integers(0, 100))
    def write_through_a_fork(self, data: st.DataObject, value: int) -> None:
        path = data.draw(st.sampled_from(sorted(self.model)))
        fork = self.session.fork()
        array_of(fork, path)[:] = value
        self.session.merge(fork)
        self.model[path] = [value] * len(self.model[path])
        self.dirty = True

    @rule()
    def discard(self) -> None:
        self.session.discard_changes()
        self.model = {p: list(cells) for p, cells in self.committed[self.branch].items()}
        self.dirty = False

    # -- versions -----------------------------------------------------------------------------

    @precondition(lambda self: self.dirty)
    @rule()
    def commit(self) -> None:
        # edits that undo each other leave nothing to commit
        self.session.commit("edits", allow_empty=True)
        self.committed[self.branch] = self.model
        self.start_session()

    @precondition(lambda self: self.dirty and self.spec == 2)
    @rule()
    def amend(self) -> None:
        self.session.amend("amended", allow_empty=True)
        self.committed[self.branch] = self.model
        self.start_session()

    @precondition(lambda self: not self.dirty)
    @rule(name=st.sampled_from(["dev", "test"]))
    def switch_branch(self, name: str) -> None:
        if name not in self.committed:
            self.repo.create_branch(name, self.repo.lookup_branch(self.branch))
            self.committed[name] = {p: list(c) for p, c in self.committed[self.branch].items()}
        self.branch = name
        self.start_session()

    @rule(target=tags)
    def tag(self) -> str:
        name = f"tag-{len(self.tagged)}-{np.random.default_rng().integers(1 << 40)}"
        self.repo.create_tag(name, self.repo.lookup_branch(self.branch))
        self.tagged[name] = {p: list(c) for p, c in self.committed[self.branch].items()}
        return name

    @rule(name=consumes(tags))
    def delete_tag(self, name: str) -> None:
        self.repo.delete_tag(name)
        del self.tagged[name]

    @precondition(lambda self: self.committed[self.branch] and not self.dirty)
    @rule(data=st.data(), ours=st.booleans())
    def lose_a_race_and_rebase(self, data: st.DataObject, *, ours: bool) -> None:
        path = data.draw(st.sampled_from(sorted(self.model)))
        array_of(self.session, path)[:1] = 7
        rival = self.repo.writable_session(self.branch)
        array_of(rival, path)[:] = 8
        rival.commit("rival")
        choice = VersionSelection.UseOurs if ours else VersionSelection.UseTheirs
        self.session.commit(
            "rebased",
            rebase_with=BasicConflictSolver(on_chunk_conflict=choice),
            allow_empty=True,
        )
        self.committed[self.branch][path] = self._after_race(path, ours=ours)
        self.start_session()

    def _after_race(self, path: str, *, ours: bool) -> list[int]:
        """Conflicts are settled per chunk of two cells, not per cell."""
        before = self.committed[self.branch][path]
        cells = [8] * len(before)
        if ours:
            cells[:2] = [7, *before[1:2]]
        return cells

    # -- what must hold -----------------------------------------------------------------------

    @invariant()
    def the_session_shows_the_model(self) -> None:
        assert contents(self.session) == dict(sorted(self.model.items()))
        assert self.dirty or not self.session.has_uncommitted_changes

    def teardown(self) -> None:
        if not hasattr(self, "repo"):
            return
        ours = Repository.open(local_filesystem_storage(self.folder))
        theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(self.folder))
        for repo in (ours, theirs):
            assert repo.list_branches() == set(self.committed)
            assert repo.list_tags() == set(self.tagged)
            for branch, model in self.committed.items():
                assert contents(repo.readonly_session(branch)) == dict(sorted(model.items()))
            for tag, model in self.tagged.items():
                assert contents(repo.readonly_session(tag=tag)) == dict(sorted(model.items()))
        shutil.rmtree(self.folder)


TestRepositoryMachine = RepositoryMachine.TestCase
TestRepositoryMachine.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
