"""What is staged and published is read, compared and appended to by icechunk."""

from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr
from tests.builders import GROUP, array_json
from tests.tables import Refs

from icestream.model.chunk_refs import InlineRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.config import RepositoryConfig
from icestream.model.index_maps import IndexMap
from icestream.model.manifest_conditions import ManifestSplitCondition, ManifestSplitDimCondition
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.repository.repository import Repository
from icestream.repository.staged.commits import put_staged_array
from icestream.repository.staged.planning import plan_cells
from icestream.repository.staged.publishing import publish_staged, split_into_commits
from icestream.repository.staged.writing import write_cell
from icestream.storage import local_filesystem_storage


def config_with_splits() -> RepositoryConfig:
    dims = tuple((ManifestSplitDimCondition.Axis(axis), 2) for axis in range(2))
    rules = ((ManifestSplitCondition.AnyArray(), dims),)
    return RepositoryConfig(manifest=ManifestConfig(splitting=ManifestSplittingConfig(rules)))


def publish(
    repo: Repository,
    shape: tuple[int, int],
    places: list[tuple[int, int]],
    *,
    index_map: IndexMap | None = None,
    max_chunks: int = 1000,
) -> None:
    """Set chunks of /a, each the number of its place before anything moved."""
    session = repo.writable_session("main")
    if session._copy.nodes.find("/") is None:
        session._copy.put_metadata("/", GROUP)
    before, after = put_staged_array(session, "/a", array_json(shape, (1, 1)))
    boxes = np.array([[(i, i + 1), (j, j + 1)] for i, j in places]).reshape(-1, 2, 2)
    context = session._copy.context
    plan = plan_cells(before, after, context.packing, index_map=index_map, added=boxes)
    refs: Refs = {place: InlineRef(np.int32(value(*place)).tobytes()) for place in places}
    added = ChunkTable.from_refs(refs, 2)
    spec = context.timeline.spec
    cells = [write_cell(context.assets, task, [added], spec=spec) for task in plan.tasks]
    publish_staged(session, split_into_commits({"/a": (plan, cells)}, max_chunks), "staged")


def value(i: int, j: int) -> int:
    return 100 * i + j + 1


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("max_chunks", [1000, 4])
def test_icechunk_reads_what_was_staged(tmp_path: Path, spec_version: int, max_chunks: int) -> None:
    storage = local_filesystem_storage(str(tmp_path))
    repo = Repository.create(storage, config=config_with_splits(), spec_version=spec_version)
    everything = [(i, j) for i in range(5) for j in range(3)]
    publish(repo, (5, 3), everything, max_chunks=max_chunks)
    first = repo.lookup_branch("main")
    # a late file: what was at 3 and 4 is at 4 and 5 now
    late = IndexMap((np.array([0, 1, 2, 4, 5]), None))
    publish(repo, (6, 3), [(3, 0), (3, 1)], index_map=late, max_chunks=max_chunks)

    peer = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    expected = np.array([[value(i, j) for j in range(3)] for i in (0, 1, 2, 0, 3, 4)])
    expected[3] = [value(3, 0), value(3, 1), 0]
    session = peer.readonly_session("main")
    assert zarr.open_group(session.store, mode="r")["a"][...].tolist() == expected.tolist()
    diff = peer.diff(from_snapshot_id=first, to_branch="main")
    assert diff.updated_arrays == {"/a"}
    changed = {tuple(index) for index in diff.updated_chunks["/a"]}
    assert changed == {(i, j) for i in (3, 4, 5) for j in range(3)}
    assert set(peer.list_branches()) == {"main"}

    writable = peer.writable_session("main")
    zarr.open_group(writable.store, mode="r+")["a"][0, 0] = 77
    writable.commit("by the peer")
    ours = Repository.open(storage).readonly_session("main")
    assert zarr.open_group(ours.store, mode="r")["a"][:2, 0].tolist() == [77, value(1, 0)]
