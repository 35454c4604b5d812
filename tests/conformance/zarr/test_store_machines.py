"""The state machines that zarr ships, on the store of a session, with commits in between."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import icechunk
import pytest
import zarr
from hypothesis import note, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import DataObject
from tests.builders import GROUP, array_json
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.core.sync import sync
from zarr.testing.stateful import (
    MAX_BINARY_SIZE,
    ZarrHierarchyStateMachine,
    ZarrStoreStateMachine,
)

from icestream.repository.repository import Repository
from icestream.storage.factories import in_memory_storage, local_filesystem_storage
from icestream.storage.protocol import Storage

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

ARRAYS = ("a", "group/b")
"""Paths of the arrays whose chunks are set; one of them is the root."""


def _chunk_keys() -> st.SearchStrategy[str]:
    index = st.tuples(st.integers(0, 3), st.integers(0, 11))
    return st.builds(
        lambda path, i: f"{path}/c/{i[0]}/{i[1]}".lstrip("/"), st.sampled_from(ARRAYS[1:]), index
    )


class StoreMachine(ZarrStoreStateMachine):
    """Sets and deletes the chunks of two arrays; everything else is zarr's.

    Arbitrary keys can be asked for, not set: the rule `set` has valid keys, and chunks that are
    not empty. Deleting an array's metadata deletes its chunks, so `delete` is given chunk keys.
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.session = repo.writable_session("main")
        super().__init__(self.session.store)

    @initialize()
    def init_store(self) -> None:
        super().init_store()
        self.model.clear()
        self._declare_arrays()

    def _declare_arrays(self) -> None:
        for path in ("a", "group/b"):
            self._set(f"{path}/zarr.json", array_json((4, 12), (1, 1)))
        for path in ("", "group"):
            self._set(f"{path}/zarr.json".lstrip("/"), GROUP)

    def _set(self, key: str, data: bytes) -> None:
        self.store.set(key, cpu.Buffer.from_bytes(data))
        self.model[key] = cpu.Buffer.from_bytes(data)

    # keys of chunks that the arrays have a place for, some of them too long to be kept inline
    @rule(
        key=_chunk_keys(),
        data=st.binary(min_size=1, max_size=MAX_BINARY_SIZE),
        repeat=st.sampled_from([1, 600]),
    )
    def set(self, key: str, data: bytes, repeat: int) -> None:
        note(f"(set) {key!r} with {len(data) * repeat} bytes")
        self._set(key, data * repeat)

    @precondition(lambda self: any("/c/" in key for key in self.model))
    @rule(data=st.data())
    def delete(self, data: DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(key for key in self.model if "/c/" in key)))
        self.store.delete(key)
        del self.model[key]

    @rule()
    def clear(self) -> None:
        super().clear()
        self._declare_arrays()

    @rule()
    def commit(self) -> None:
        self.session.commit("step", allow_empty=True)
        self.session = self.repo.writable_session("main")
        self.store.store = self.session.store


class HierarchyMachine(ZarrHierarchyStateMachine):
    """Edits a hierarchy through zarr; commits now and then, and lets icechunk read the result."""

    def __init__(self, repo: Repository, folder: Path | None = None) -> None:
        self.repo = repo
        self.folder = folder
        self.session = repo.writable_session("main")
        super().__init__(self.session.store)

    @rule()
    def commit(self) -> None:
        self.session.commit("step", allow_empty=True)
        self.session = self.repo.writable_session("main")
        self.store = self.session.store

    @precondition(lambda self: self.folder is not None)
    @rule()
    def icechunk_reads_the_same(self) -> None:
        self.commit()
        peer = icechunk.Repository.open(icechunk.local_filesystem_storage(str(self.folder)))
        store = peer.readonly_session("main").store
        expected = _contents(self.model)

        assert _contents(store) == {
            key: value if "/c" in key else _same_document(value, self._stored(key))
            for key, value in expected.items()
        }

    def _stored(self, key: str) -> bytes:
        value = self._sync(self.store.get(key, default_buffer_prototype()))
        assert value is not None
        return value.to_bytes()


def _same_document(expected: bytes, stored: bytes) -> bytes:
    """Return the stored metadata, which says the same as in the model."""
    assert json.loads(stored) == json.loads(expected)
    return stored


def _contents(store: Any) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        prototype = default_buffer_prototype()
        values = {key: await store.get(key, prototype) async for key in store.list()}
        return {key: _bytes(value) for key, value in values.items()}

    return sync(read())


def _bytes(value: Buffer | None) -> bytes:
    assert value is not None
    return value.to_bytes()


@pytest.fixture(params=["memory", "local"])
def storages(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function that makes empty storages: hypothesis runs many examples per test."""

    def make() -> tuple[Storage, Path | None]:
        if request.param == "memory":
            return in_memory_storage(), None
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        return local_filesystem_storage(str(folder)), folder

    icechunk.set_logs_filter("error")
    return make


def _run(machine: Callable[[], RuleBasedStateMachine]) -> None:
    limits = settings(max_examples=12, stateful_step_count=12)
    run_state_machine_as_test(machine, settings=limits)  # type: ignore[arg-type]  # makes one, too


def test_store_agrees_with_a_dictionary(storages: Any) -> None:
    _run(lambda: StoreMachine(Repository.create(storages()[0])))


def test_hierarchies_agree_with_zarr_in_memory_and_with_icechunk(storages: Any) -> None:
    def machine() -> HierarchyMachine:
        storage, folder = storages()
        return HierarchyMachine(Repository.create(storage), folder)

    with zarr.config.set({"array.rectilinear_chunks": True}):
        _run(machine)
