from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from tests.builders import one_manifest_per_array, repository
from tests.histories import InterruptingStorage
from tests.tables import refs_of

from icestream.assets import layout
from icestream.codec.manifests import decode_manifest
from icestream.errors import ConflictError, ErrorKind, IcestreamError
from icestream.model.change_sets import ChangeSet
from icestream.model.chunk_refs import VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.config import RepositoryConfig
from icestream.model.conflicts import ConflictDetector
from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.location_pools import as_texts
from icestream.model.nodes import ArrayNode
from icestream.model.prefix_advice import AdviceLimits
from icestream.repository import commits
from icestream.repository.location_listing import all_locations
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage, local_filesystem_storage
from icestream.testing.doubles import CountingStorage

PREFIX = "s3://bucket/reanalysis/hourly/"
LOCATIONS = [f"{PREFIX}{year}/t2m-{year}.nc" for year in (2020, 2020, 2021)] + ["s3://else/x.nc"]


def fill(repo: Repository, name: str = "x", locations: Sequence[str] = LOCATIONS) -> str:
    """Commit an array with one absolute location per chunk, with checksums of both kinds."""
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        name, shape=(len(locations) + 1,), chunks=(1,), dtype="i4"
    )[-1] = 7
    specs = [
        VirtualChunkSpec([i], text, 100 * i, 10 + i, "etag" if i % 2 else None)
        for i, text in enumerate(locations)
    ]
    session.store.set_virtual_refs(name, specs, validate_containers=False, relative=False)
    return session.commit(name)


def declare(repo: Repository, *containers: VirtualChunkContainer) -> Repository:
    """Store containers in the configuration."""
    for container in containers:
        repo.config.set_virtual_chunk_container(container)
    repo.save_config()
    return repo


def hourly() -> VirtualChunkContainer:
    return VirtualChunkContainer.of(prefix=PREFIX, name="hourly")


def stored(repo: Repository) -> list[str]:
    return all_locations(repo.readonly_session("main")._copy, stored=True)


def listed(repo: Repository) -> list[str]:
    return all_locations(repo.readonly_session("main")._copy)


def tables(repo: Repository) -> dict[str, ChunkTable]:
    """Return the references of each array of the main branch."""
    copy = repo.readonly_session("main")._copy
    nodes = copy.nodes.nodes()
    return {node.path: copy.table(node) for node in nodes if isinstance(node, ArrayNode)}


def text_bytes(repo: Repository) -> int:
    """Return the bytes of the distinct texts of each manifest of the main branch."""
    total = 0
    for file in repo.list_manifest_files(repo.lookup_branch("main")):
        path = f"{layout.MANIFESTS}{file.id}"
        manifest = decode_manifest(repo.storage.get(path), name=path)
        texts = {
            t for table in manifest.arrays.values() for t in table.location_column().to_pylist()
        }
        total += sum(len(text.encode()) for text in texts - {None})
    return total


def test_locations_become_relative_and_absolute_again() -> None:
    repo = repository()
    fill(repo)
    declare(repo, hourly())

    there = repo.rewrite_locations("relative", branch="main")
    relative = stored(repo)
    back = repo.rewrite_locations("absolute", branch="main", relative=False)

    assert relative == [
        "vcc://hourly/2020/t2m-2020.nc",
        "vcc://hourly/2020/t2m-2020.nc",
        "vcc://hourly/2021/t2m-2021.nc",
        "s3://else/x.nc",
    ]
    assert listed(repo) == stored(repo) == LOCATIONS
    assert (there.manifests, there.locations) == (back.manifests, back.locations) == (1, 2)
    assert there.bytes_saved == -back.bytes_saved == 2 * (len(PREFIX) - len("vcc://hourly/"))


def test_nothing_but_texts_changes() -> None:
    repo = repository()
    fill(repo)
    declare(repo, hourly())
    before = tables(repo)["/x"]

    repo.rewrite_locations("relative", branch="main")
    after = tables(repo)["/x"]

    assert np.array_equal(after.index, before.index)
    assert np.array_equal(after.kind, before.kind)
    assert np.array_equal(after.byte_offset, before.byte_offset)
    assert np.array_equal(after.length, before.length)
    assert after.etag_column().to_pylist() == before.etag_column().to_pylist()
    assert as_texts(after.locations) != as_texts(before.locations)
    repo.rewrite_locations("absolute", branch="main", relative=False)
    assert refs_of(tables(repo)["/x"]) == refs_of(before)


def test_a_rewrite_is_one_commit_that_changes_nothing_for_readers() -> None:
    repo = repository()
    first = fill(repo)
    declare(repo, hourly())

    done = repo.rewrite_locations("relative", branch="main", metadata={"by": "me"})

    newest, parent, *_ = repo.ancestry(branch="main")
    assert (newest.id, newest.message, parent.id) == (done.snapshot_id, "relative", first)
    assert newest.metadata == {"by": "me"}
    assert repo.diff(from_snapshot_id=first, to_branch="main").is_empty()


def test_manifests_in_which_no_text_changes_are_kept() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage, config=one_manifest_per_array())
    fill(repo)
    fill(repo, "elsewhere", ["s3://else/x.nc"])
    declare(repo, hourly())
    before = manifest_ids(repo)
    storage.reset()

    repo.rewrite_locations("relative", branch="main")

    assert len(manifest_ids(repo) & before) == 1
    written = [p for verb, p in storage.log if verb == "put" and p.startswith(layout.MANIFESTS)]
    assert len(written) == 1


def test_without_anything_to_rewrite_there_is_no_commit() -> None:
    repo = repository()
    tip = fill(repo)

    done = repo.rewrite_locations("relative", branch="main")

    assert (done.snapshot_id, done.manifests, done.bytes_saved) == (None, 0, 0)
    assert repo.lookup_branch("main") == tip


def test_containers_of_this_run_only_are_not_used() -> None:
    repo = repository()
    fill(repo)
    repo.config.set_virtual_chunk_container(hourly())

    assert repo.rewrite_locations("relative", branch="main").snapshot_id is None


def test_the_deepest_container_takes_what_was_relative_to_another() -> None:
    repo = repository()
    fill(repo)
    declare(repo, hourly())
    repo.rewrite_locations("relative", branch="main")
    declare(repo, VirtualChunkContainer.of(prefix=f"{PREFIX}2020/", name="y20"))

    repo.rewrite_locations("deeper", branch="main")

    assert stored(repo)[0] == "vcc://y20/t2m-2020.nc"
    assert listed(repo) == LOCATIONS


@pytest.mark.parametrize(
    "location",
    [
        "S3://bucket/reanalysis/hourly/x.nc",
        "s3://bucket/reanalysis/hourl%79/x.nc",
        "s3://bucket/reanalysis/hourly/../x.nc",
        "vcc://lost/x.nc",
        "s3://bucket/reanalysis/hourly",
    ],
)
def test_a_text_that_would_not_come_back_stays(location: str) -> None:
    repo = declare(repository(), hourly())
    table = ChunkTable.from_refs(refs_of(virtual_table([location, LOCATIONS[0]])), 1)
    session = repo.writable_session("main")
    zarr.create_group(session.store).create_array("x", shape=(2,), chunks=(1,), dtype="i4")
    session._copy.put_table("/x", table)
    session.commit("odd")

    repo.rewrite_locations("relative", branch="main")

    assert stored(repo) == [location, "vcc://hourly/2020/t2m-2020.nc"]
    repo.rewrite_locations("absolute", branch="main", relative=False)
    assert stored(repo) == [location, LOCATIONS[0]]


def test_templates_are_filled_on_request_only() -> None:
    repo = repository()
    fill(repo)
    template = f"{PREFIX}{{}}/t2m-{{}}.nc"
    declare(repo, VirtualChunkContainer.of(name="t2m", url_template=template))

    assert repo.rewrite_locations("plain", branch="main").snapshot_id is None
    repo.rewrite_locations("templates", branch="main", templates=True)

    assert stored(repo) == ["vcc://t2m/2020/2020"] * 2 + ["vcc://t2m/2021/2021", "s3://else/x.nc"]
    assert listed(repo) == LOCATIONS


@pytest.mark.parametrize("templates", [False, True])
def test_advice_comes_true(templates: bool) -> None:  # noqa: FBT001  a parameter of the test
    repo = repository()
    fill(repo)
    fill(repo, "y", [f"{PREFIX}{i // 9}/{i:05d}.nc" for i in range(60)])
    fill(repo, "z", [f"gs://maps/tiles/v1/{i}/tile-{i}.tif" for i in range(30)])
    before = text_bytes(repo)
    limits = AdviceLimits(max_containers=3, min_bytes_saved=1, templates=templates)

    advice = repo.advise_containers(branch="main", limits=limits)
    declare(repo, *(share.container for share in advice.proposals))
    done = repo.rewrite_locations("as advised", branch="main", templates=templates)

    assert 0 < len(advice.proposals) <= 3
    assert any(share.container.template for share in advice.proposals) is templates
    assert (advice.bytes_before, advice.bytes_after) == (before, text_bytes(repo))
    assert (done.bytes_before, done.bytes_after) == (before, text_bytes(repo))
    assert advice.bytes_saved > 0


def test_relative_locations_need_the_newer_format() -> None:
    repo = repository(spec_version=1)
    fill(repo)

    with pytest.raises(IcestreamError, match="relative locations"):
        repo.rewrite_locations("relative", branch="main")
    assert repo.rewrite_locations("x", branch="main", relative=False).snapshot_id is None


def test_a_branch_that_moves_meanwhile_is_a_conflict() -> None:
    storage = InterruptingStorage(in_memory_storage())
    repo = repository(storage, config=one_manifest_per_array())
    fill(repo)
    declare(repo, hourly())
    other = Repository.open(storage)

    with (
        storage.interrupted("put", layout.MANIFESTS, lambda: fill(other, "y")),
        pytest.raises(ConflictError) as caught,
    ):
        repo.rewrite_locations("relative", branch="main")

    assert caught.value.kind is ErrorKind.COMMIT_CONFLICT
    assert repo.rewrite_locations("again", branch="main").manifests == 2


def test_a_writer_passes_a_rewrite_without_conflict() -> None:
    repo = repository()
    fill(repo)
    declare(repo, hourly())
    session = repo.writable_session("main")
    session.store.set_virtual_ref("x/c/0", "s3://else/new.nc", 0, 5)

    repo.rewrite_locations("relative", branch="main")
    session.commit("mine", rebase_with=ConflictDetector())

    assert listed(repo) == ["s3://else/new.nc", *LOCATIONS[1:]]
    assert stored(repo)[1].startswith("vcc://")


def test_icechunk_expands_rewritten_locations_to_the_same(tmp_path: Path) -> None:
    repo = repository(local_filesystem_storage(str(tmp_path)))
    fill(repo)
    declare(repo, hourly())
    assert by_icechunk(tmp_path) == LOCATIONS

    repo.rewrite_locations("relative", branch="main")

    assert stored(repo)[0].startswith("vcc://")
    config = icechunk.Repository.fetch_config(icechunk.local_filesystem_storage(str(tmp_path)))
    assert expanded(by_icechunk(tmp_path), config) == LOCATIONS


def test_icechunk_reads_through_rewritten_locations(tmp_path: Path) -> None:
    files, root = tmp_path / "files", tmp_path / "repo"
    files.mkdir()
    (files / "data.bin").write_bytes(np.arange(4, dtype="<i4").tobytes())
    prefix = f"file://{files}/"
    repo = repository(local_filesystem_storage(str(root)))
    session = repo.writable_session("main")
    zarr.create_group(session.store).create_array(
        "x", shape=(4,), chunks=(1,), dtype="i4", compressors=None
    )
    specs = [VirtualChunkSpec([i], f"{prefix}data.bin", 4 * i, 4) for i in range(4)]
    session.store.set_virtual_refs("x", specs, validate_containers=False)
    session.commit("absolute")
    declare(repo, VirtualChunkContainer.of(prefix=prefix, name="files"))

    repo.rewrite_locations("relative", branch="main")

    assert stored(repo) == ["vcc://files/data.bin"] * 4
    peer = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(root)),
        authorize_virtual_chunk_access={prefix: icechunk.credentials.LocalFileSystemAccess},
    )
    array: Any = zarr.open_array(peer.readonly_session("main").store, path="x", mode="r")
    assert array[:].tolist() == [0, 1, 2, 3]


def test_several_arrays_stay_together_in_one_manifest(tmp_path: Path) -> None:
    repo = repository(local_filesystem_storage(str(tmp_path)))
    fill(repo)
    fill(repo, "y")
    pack_together(repo)
    declare(repo, hourly())

    repo.rewrite_locations("relative", branch="main")

    assert len(manifest_ids(repo)) == 1
    assert listed(repo) == LOCATIONS * 2
    assert expanded(by_icechunk(tmp_path), repo.config) == LOCATIONS * 2


def test_configurations_are_as_they_were() -> None:
    repo = declare(repository(config=RepositoryConfig(inline_chunk_threshold_bytes=3)), hourly())
    fill(repo)
    before = repo.config

    repo.rewrite_locations("relative", branch="main")

    assert Repository.open(repo.storage).config == before


# -- helpers --------------------------------------------------------------------------------------


def manifest_ids(repo: Repository) -> set[str]:
    return {file.id for file in repo.list_manifest_files(repo.lookup_branch("main"))}


def virtual_table(locations: Sequence[str]) -> ChunkTable:
    return ChunkTable.from_refs(
        {(i,): VirtualRef(text, 0, 10) for i, text in enumerate(locations)}, 1
    )


def by_icechunk(folder: Path) -> list[str]:
    peer = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder)))
    return peer.readonly_session("main").all_virtual_chunk_locations()


def expanded(locations: Sequence[str], config: Any) -> list[str]:
    """Return locations with the names of containers replaced by their prefixes."""
    containers = (config.virtual_chunk_containers or {}).values()
    prefixes = {f"vcc://{c.name}/": c.url_prefix for c in containers}
    for start, prefix in prefixes.items():
        locations = [text.replace(start, prefix) for text in locations]
    return list(locations)


def pack_together(repo: Repository) -> None:
    """Commit a version in which all arrays share one manifest."""
    context = repo._context
    base = context.assets.load_snapshot(context.timeline.branch_tip("main"))
    arrays = [node for node in base.nodes.values() if isinstance(node, ArrayNode)]
    copy = repo.readonly_session("main")._copy
    file = context.assets.save_manifest(
        {node.id: copy.table(node) for node in arrays}, spec=2, locations=None
    )
    nodes = {
        path: replace(
            node, manifests=tuple(replace(ref, manifest_id=file.id) for ref in node.manifests)
        )
        if isinstance(node, ArrayNode)
        else node
        for path, node in base.nodes.items()
    }
    packed = replace(base, nodes=nodes, manifest_files={file.id: file})
    commits.commit(
        context,
        commits.CommitRequest(
            base=packed, changes=ChangeSet(), branch="main", message="packed", metadata={}
        ),
    )
