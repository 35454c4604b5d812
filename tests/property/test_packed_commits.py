"""However references are packed, split and packed anew, every array keeps exactly its own."""

from collections import Counter
from collections.abc import Collection

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.builders import array_json

from icestream.model.chunk_refs import InlineRef
from icestream.model.config import RepositoryConfig
from icestream.model.manifest_conditions import ManifestSplitCondition, ManifestSplitDimCondition
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.model.manifest_sets import ChunkManifests, ChunkRange, ManifestRule, ManifestSet
from icestream.model.nodes import ArrayNode
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage import in_memory_storage

PATHS = ("/a", "/b", "/c/d", "/e")
GRID = 12

sizes = st.integers(1, 8)
sets = st.one_of(
    st.builds(ManifestSet, st.just("small"), sizes, st.none(), st.integers(1, 2)),
    st.builds(ManifestSet, st.just("small"), st.none(), st.integers(1, 3), st.none()),
)
defaults = st.one_of(
    st.builds(
        ManifestSet,
        st.just("default"),
        sizes,
        split_oversized=st.one_of(st.none(), st.booleans()),
    ),
    st.builds(ManifestSet, st.just("default"), arrays_per_manifest=st.integers(1, 3)),
)
rules = st.sampled_from(
    [
        (),
        (ManifestRule("small", path="/[ab]"),),
        (ManifestRule("small", initialized_chunks=ChunkRange(0, 4)),),
    ]
)


@st.composite
def configurations(draw: st.DrawFn) -> RepositoryConfig:
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests((draw(sets), draw(defaults)), draw(rules))
    size = draw(st.one_of(st.none(), st.integers(1, 6)))
    if size is not None:
        arrays = ManifestSplitCondition.path_matches(draw(st.sampled_from(["a", "[bd]", "."])))
        dimension = ManifestSplitDimCondition.Axis(draw(st.integers(0, 1)))
        splitting = ManifestSplittingConfig.from_dict({arrays: {dimension: size}})
        config.manifest = ManifestConfig(splitting=splitting)
    return config


Chunk = tuple[int, int]
Model = dict[str, dict[Chunk, bytes]]
Edit = tuple[str, str, Collection[Chunk]]

chunks = st.tuples(st.integers(0, GRID - 1), st.integers(0, 1))
edits: st.SearchStrategy[Edit] = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(PATHS), st.sets(chunks, min_size=1, max_size=10)),
    st.tuples(st.just("delete"), st.sampled_from(PATHS), st.sets(chunks, min_size=1, max_size=4)),
    st.tuples(st.just("drop"), st.sampled_from(PATHS), st.just(frozenset())),
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_array_keeps_its_references(data: st.DataObject) -> None:
    storage = in_memory_storage()
    Repository.create(storage)
    model: Model = {}
    for number in range(data.draw(st.integers(1, 5))):
        repo = Repository.open(storage, config=data.draw(configurations()))
        session = repo.writable_session("main")
        for edit in data.draw(st.lists(edits, min_size=1, max_size=4)):
            _apply(session, model, edit, number)
        if session.has_uncommitted_changes:
            session.commit("edits")
        if data.draw(st.booleans()):
            repo.rewrite_manifests("again", branch="main")
        assert _found(Repository.open(storage)) == model
        _check_snapshot(repo)


def _apply(session: Session, model: Model, edit: Edit, number: int) -> None:
    kind, path, indexes = edit
    copy = session._copy
    if kind == "drop":
        if model.pop(path, None) is not None:
            copy.delete_node(path)
        return
    if path not in model:
        if kind == "delete":
            return
        copy.put_metadata(path, array_json((GRID, 2), (1, 1)))
        model[path] = {}
    for index in indexes:
        if kind == "set":
            value = f"{number}{path}{index}".encode()
            copy.put_ref(path, index, InlineRef(value))
            model[path][index] = value
        else:
            copy.delete_chunk(path, index)
            model[path].pop(index, None)


def _found(repo: Repository) -> Model:
    """Return what a fresh reader finds, chunk by chunk and as tables."""
    copy = repo.readonly_session("main")._copy
    found: Model = {}
    for path, node in copy.snapshot.nodes.items():
        if isinstance(node, ArrayNode):
            table = copy.table(node)
            found[path] = {}
            for row, index in enumerate(map(tuple, table.index.tolist())):
                ref = table.ref(row)
                chunk = copy.find_chunk(path, index)
                assert chunk is not None
                assert chunk.ref == ref
                assert isinstance(ref, InlineRef)
                found[path][index] = ref.data
    return found


def _check_snapshot(repo: Repository) -> None:
    """Make sure that manifests hold each reference once, and no more than recorded."""
    copy = repo.readonly_session("main")._copy
    assets = copy.context.assets
    for node in copy.snapshot.nodes.values():
        if not isinstance(node, ArrayNode):
            continue
        rows = Counter[tuple[int, ...]]()
        for ref in node.manifests:
            table = assets.load_manifest(ref.manifest_id).arrays[node.id]
            rows.update(map(tuple, table.index.tolist()))
            assert all(
                lo <= i < hi
                for index in table.index.tolist()
                for i, (lo, hi) in zip(index, ref.extents, strict=True)
            )
        assert set(rows.values()) <= {1}
    for file in copy.snapshot.manifest_files.values():
        assert assets.load_manifest(file.id).num_refs == file.num_refs
