"""Advice on containers keeps its promises, whatever the locations are."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import repository

from icestream.assets import layout
from icestream.codec.manifests import decode_manifest
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.distinct_texts import are_surely_distinct, distinct, text_numbers
from icestream.model.location_forms import absolute_texts, relative_texts
from icestream.model.locations import location_fault
from icestream.model.path_weights import LocationWeights
from icestream.model.prefix_advice import AdviceLimits, advise
from icestream.repository.repository import Repository

_roots = st.sampled_from(["s3://b/", "s3://bucket/", "S3://bucket/", "gs://b/", "file:///d/", "m/"])
_segments = st.sampled_from(["a", "long-folder-name", "v1", "v2", "%20", "ü", "x y", "run_7"])
_folders = st.lists(_segments, max_size=4).map(lambda parts: "".join(f"{p}/" for p in parts))
_names = st.from_regex(r"(t-)?[0-9a-c]{1,4}(\.nc)?", fullmatch=True)
_sound = st.builds("{}{}{}".format, _roots, _folders, _names)
_odd = st.sampled_from(
    ["", "/", "s3://", "s3://b", "s3://b//x", "s3://b/../x", "vcc://lost/x", "x?y"]
)
_locations = st.lists(_sound | _odd, min_size=1, max_size=30, unique=True)
_containers = st.lists(
    st.builds(
        lambda root, folder, number: VirtualChunkContainer.of(
            prefix=f"{root}{folder}", name=f"n{number}"
        ),
        st.sampled_from(["s3://b/", "s3://bucket/", "gcs://b/", "file:///d/"]),
        _folders,
        st.integers(0, 9),
    ),
    max_size=3,
    unique_by=(lambda c: c.name, lambda c: c.url_prefix),
)
_limits = st.builds(
    AdviceLimits,
    max_containers=st.integers(1, 4),
    min_bytes_saved=st.integers(1, 200),
    templates=st.booleans(),
)


def as_column(texts: Sequence[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def in_force(containers: Sequence[VirtualChunkContainer]) -> ContainerSet:
    return ContainerSet.of(containers, persisted=containers)


@st.composite
def weights(draw: st.DrawFn) -> LocationWeights:
    locations = draw(_locations)
    counts = st.lists(st.integers(1, 1000), min_size=len(locations), max_size=len(locations)).map(
        np.array
    )
    column = as_column(locations)
    return LocationWeights(column, column, draw(counts), draw(counts))


@given(weights(), _containers, _limits)
def test_advice_covers_every_location_that_it_claims(
    found: LocationWeights, existing: list[VirtualChunkContainer], limits: AdviceLimits
) -> None:
    advice = advise(found, existing, limits)

    assert len(advice.proposals) <= limits.max_containers
    assert len({share.container.name for share in advice.shares}) == len(advice.shares)
    containers = in_force([*existing, *(share.container for share in advice.proposals)])
    locations = found.locations.to_pylist()
    owners = [owner_of(location, containers) for location in locations]
    after = relative_texts(found.stored, containers, templates=limits.templates).to_pylist()
    for share in advice.shares:
        name = share.container.name
        claimed = [i for i, owner in enumerate(owners) if owner == name]
        rewritten = [i for i, text in enumerate(after) if text.startswith(f"vcc://{name}/")]
        assert share.locations == len(claimed)
        assert share.references == sum(int(found.references[i]) for i in claimed)
        assert set(rewritten) <= set(claimed)
        assert not share.is_new or share.bytes_saved >= limits.min_bytes_saved


def owner_of(location: str, containers: ContainerSet) -> str | None:
    """Return the name of the stored container of a location."""
    if location_fault(location) is not None:
        return None
    owner = containers.find(location)
    return owner.name if owner in containers.declared else None


@given(weights(), _containers, _limits)
def test_advice_predicts_the_bytes_of_rewritten_texts(
    found: LocationWeights, existing: list[VirtualChunkContainer], limits: AdviceLimits
) -> None:
    advice = advise(found, existing, limits)

    containers = in_force([*existing, *(share.container for share in advice.proposals)])
    after = relative_texts(found.stored, containers, templates=limits.templates)
    sizes = [
        sum(len(t.encode()) * int(n) for t, n in zip(texts, found.copies, strict=True))
        for texts in (found.stored.to_pylist(), after.to_pylist())
    ]
    assert [advice.bytes_before, advice.bytes_after] == sizes


@given(_locations, _containers, _limits)
def test_relative_and_back_is_the_identity(
    locations: list[str], containers: list[VirtualChunkContainer], limits: AdviceLimits
) -> None:
    column, force, templates = as_column(locations), in_force(containers), limits.templates

    relative = relative_texts(column, force, templates=templates)

    assert absolute_texts(relative, force).to_pylist() == locations
    again = relative_texts(relative, force, templates=templates)
    assert again.to_pylist() == relative.to_pylist()


@settings(max_examples=20)
@given(st.lists(st.lists(_sound, min_size=1, max_size=8), min_size=1, max_size=3), _limits)
def test_rewriting_a_repository_saves_what_was_predicted(
    arrays: list[list[str]], limits: AdviceLimits
) -> None:
    repo = repository()
    for number, locations in enumerate(arrays):
        _commit_references(repo, f"array{number}", locations)
    before = _text_bytes(repo)

    advice = repo.advise_containers(branch="main", limits=limits)
    for share in advice.proposals:
        repo.config.set_virtual_chunk_container(share.container)
    repo.save_config()
    repo.rewrite_locations("relative", branch="main", templates=limits.templates)

    assert (advice.bytes_before, advice.bytes_after) == (before, _text_bytes(repo))
    absolute = repo.rewrite_locations("absolute", branch="main", relative=False)
    assert absolute.bytes_after == before == _text_bytes(repo)


def _commit_references(repo: Repository, name: str, locations: Sequence[str]) -> None:
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        name, shape=(len(locations),), chunks=(1,), dtype="i4"
    )
    specs = [VirtualChunkSpec([i], text, 0, 10) for i, text in enumerate(locations)]
    session.store.set_virtual_refs(name, specs, validate_containers=False)
    session.commit(name)


def _text_bytes(repo: Repository) -> int:
    """Return the bytes of the distinct texts of each manifest of the main branch."""
    total = 0
    for file in repo.list_manifest_files(repo.lookup_branch("main")):
        path = f"{layout.MANIFESTS}{file.id}"
        manifest = decode_manifest(repo.storage.get(path), name=path)
        columns = (table.location_column().to_pylist() for table in manifest.arrays.values())
        total += sum(len(text.encode()) for text in {text for column in columns for text in column})
    return total


_long = st.text("ab/", min_size=20, max_size=30)


@given(st.lists(_long | st.text("ab", max_size=3)), st.integers(0, 3))
def test_texts_that_are_surely_distinct_are_distinct(texts: list[str], skipped: int) -> None:
    column = as_column(texts)[skipped:]
    kept = texts[skipped:]

    if are_surely_distinct(column):
        assert len(set(kept)) == len(kept)
    assert distinct(column).to_pylist() == list(dict.fromkeys(kept))
    numbers, values = text_numbers(column)
    assert [values[int(n)].as_py() for n in numbers] == kept
