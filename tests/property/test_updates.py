"""Random archives whose files come, go and change: updates lead from each state to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.ingest_builders import (
    archive,
    columns,
    daily_file,
    planned,
    scanned_file,
    virtual_array,
)
from tests.placed_references import reference_tables, shifted

from icestream.ingest.archive_states import ArchiveState, decode_state, encode_state
from icestream.ingest.declaration.archives import Archive, Axis, Combination, OnMismatch, Policies
from icestream.ingest.file_merging import merge_columns, without_files
from icestream.ingest.placement.copied_arrays import chunks_of
from icestream.ingest.placement.outcomes import outcome_of
from icestream.ingest.placement.placing import Placement, plan_placement
from icestream.ingest.updates.copied_updates import CopiedUpdate
from icestream.ingest.updates.planning import Updates, plan_updates
from icestream.model.chunk_tables import ChunkTable, concat, replace_columns
from icestream.parsers.scanned_files import ScannedArray, ScannedFile

STEPS = [None, None, "1"]
NEWS = st.dictionaries(st.integers(0, 9), st.sampled_from([0.0, 0.0, 1.0]), max_size=4)
Chunks = dict[tuple[int, ...], bytes]


@dataclass(frozen=True)
class World:
    """All files that an archive may have; those of one tile share their place."""

    declared: Archive
    chunk: int
    starts: Sequence[int]
    lengths: Sequence[int]
    """Along time, of each tile."""
    num_members: int
    """0 for files that have no such dimension."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw where files may lie: along time, or along time and members."""
    chunk = draw(st.integers(1, 2))
    steps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=3, max_size=5))
    gaps, counts = np.array(steps).T * chunk
    axes = [Axis(dimension="time", step=draw(st.sampled_from(STEPS)))]
    num_members = draw(st.sampled_from([0, 0, 2, 3]))
    if num_members:
        axes.append(Axis(dimension="member", step=draw(st.sampled_from(STEPS))))
    combine = Combination(along=tuple(axes), constant=("mask", "clock"))
    starts = np.cumsum(gaps + counts) - counts
    return World(archive(combine=combine), chunk, starts.tolist(), counts.tolist(), num_members)


def changed(array: ScannedArray, version: int) -> ScannedArray:
    table = array.references
    return replace(
        array, references=replace_columns(table, byte_offset=table.byte_offset + 1000 * version)
    )


def made(world: World, tile: tuple[int, int], variables: str, version: int) -> ScannedFile:
    """Return a file of some variables."""
    time, member = tile
    length = world.lengths[time]
    # names are in no order of places, so that the first file is anywhere
    url = f"s3://b/{(time * 7 + member * 3) % 5}-{time}-{member}-{variables}.nc"
    dims: tuple[str, ...] = ("time", "x")
    shape: tuple[int, ...] = (length, 2)
    chunks: tuple[int, ...] = (world.chunk, 1)
    coordinates = {"time": np.arange(length) + world.starts[time], "x": np.arange(2)}
    if world.num_members:
        dims, shape, chunks = ("member", *dims), (1, *shape), (1, *chunks)
        coordinates["member"] = np.array([member])
    every = {
        "a": virtual_array(url, dims, shape, chunks),
        "b": virtual_array(url, dims[::-1], shape[::-1], chunks[::-1]),
        "mask": virtual_array(url, ("x", "y"), (2, 80), (2, 40)),
        "clock": virtual_array(url, ("time",), (length,), (world.chunk,)),
    }
    names = {"A": ("a", "clock"), "B": ("b",), "M": ("a", "b", "mask", "clock")}[variables]
    arrays = {name: changed(every[name], version) for name in names}
    return scanned_file(url, arrays, coordinates)


Kinds = Mapping[tuple[int, int], str]


@st.composite
def archives(draw: st.DrawFn, world: World, kinds: Kinds) -> list[ScannedFile]:
    """Draw files that are there: of one tile, all variables in one file or in two."""
    files = []
    for tile, kind in kinds.items():
        for variables in ("A", "B") if kind == "AB" else (kind,):
            version = draw(st.sampled_from([0, None, 0, 0, 0, 1]))
            if version is not None:
                files.append(made(world, tile, variables, version))
    return files


@st.composite
def pairs_of_archives(
    draw: st.DrawFn,
) -> tuple[Archive, list[ScannedFile], list[ScannedFile], set[str]]:
    """Draw files before and after, and the URLs of those that are new or changed."""
    world = draw(worlds())
    tiles = [(i, j) for i in range(len(world.starts)) for j in range(max(world.num_members, 1))]
    kinds = {tile: draw(st.sampled_from(["M", "A", "AB"])) for tile in tiles}
    before, after = draw(archives(world, kinds)), draw(archives(world, kinds))
    known = {file.url: offsets(file) for file in before}
    fresh = {file.url for file in after if known.get(file.url) != offsets(file)}
    return world.declared, before, after, fresh


def offsets(file: ScannedFile) -> dict[str, list[int]]:
    return {path: array.references.byte_offset.tolist() for path, array in file.arrays.items()}


def rows_of(table: ChunkTable) -> list[object]:
    return list(
        zip(
            table.index.tolist(),
            table.location_column().to_pylist(),
            table.byte_offset.tolist(),
            strict=True,
        )
    )


def applied(
    tables: Mapping[str, ChunkTable],
    updates: Updates,
    after: Placement,
    files: Mapping[str, ScannedFile],
) -> dict[str, ChunkTable]:
    """Return references as updates make them from those that were there and those of some files."""
    found = {path: table for path, table in tables.items() if path not in updates.deleted_arrays}
    for path, update in updates.arrays.items():
        assert (path not in found) == update.is_new
        there = found.get(path, ChunkTable.empty(update.chunk_offset.shape[1]))
        moved = there if update.index_map is None else update.index_map.apply(there)
        added = [
            shifted(files[after.urls[row]].arrays[update.path].references, offset, update.num_new)
            for row, offset in zip(update.files.tolist(), update.chunk_offset, strict=True)
        ]
        found[path] = concat([moved, *added])
        boxes = update.added_boxes
        for table, box in zip(added, boxes, strict=False):
            assert ((table.index >= box[:, 0]) & (table.index < box[:, 1])).all()
    return found


def copied_chunks(placement: Placement) -> dict[str, Chunks]:
    return {
        section.target(path): dict(chunks_of(array))
        for section in placement.sections
        for path, array in section.copied.items()
    }


def written(there: Chunks, update: CopiedUpdate) -> Chunks:
    kept = {index: data for index, data in there.items() if index not in update.gone}
    return kept | dict(update.chunks())


@given(pairs_of_archives())
def test_updates_lead_from_one_placement_to_the_next(drawn):
    declared, files, later, fresh = drawn
    before, after = planned(files, declared), planned(later, declared)
    assume(not before.problems and not after.problems)
    updates = plan_updates(before, after, fresh)
    at_hand = {file.url: file for file in later if file.url in fresh or file.url in updates.rescan}
    assert fresh.isdisjoint(updates.rescan)
    found = applied(reference_tables(before, files), updates, after, at_hand)
    wanted = reference_tables(after, later)
    assert {path: rows_of(table) for path, table in found.items() if len(table)} == {
        path: rows_of(table) for path, table in wanted.items() if len(table)
    }
    chunks = copied_chunks(before)
    for path in updates.deleted_arrays:
        chunks.pop(path, None)
    for path, update in updates.copied.items():
        chunks[path] = written(chunks.get(path, {}), update)
    assert chunks == copied_chunks(after)
    assert_documents_follow(before, after, updates)
    # only a file that takes over a constant from another is read although it stays
    assert {"/mask", "/clock"} >= {
        path
        for path, update in updates.arrays.items()
        if any(after.urls[row] in updates.rescan for row in update.files.tolist())
    }


def assert_documents_follow(before: Placement, after: Placement, updates: Updates) -> None:
    old, new = documents(before), documents(after)
    kept = {path: text for path, text in old.items() if path not in updates.deleted_arrays}
    changes: dict[str, object] = {}
    for path, update in updates.arrays.items():
        changes |= {} if update.metadata is None else {path: update.metadata}
    for path, copy in updates.copied.items():
        changes |= {} if copy.metadata is None else {path: copy.metadata}
    assert kept | changes == new


def documents(placement: Placement) -> dict[str, object]:
    found: dict[str, object] = {}
    for section in placement.sections:
        found |= {section.target(path): one.metadata for path, one in section.virtual.items()}
        found |= {section.target(path): one.metadata for path, one in section.copied.items()}
    return found


@given(pairs_of_archives())
def test_nothing_follows_from_equal_placements(drawn):
    declared, files, _, _ = drawn
    updates = plan_updates(planned(files, declared), planned(files[::-1], declared), set())
    assert updates.is_empty
    assert not updates.rescan


@given(st.data(), st.sampled_from(OnMismatch))
def test_run_after_run_follows_from_the_state_alone(data, policy):
    declared = archive(Axis(dimension="time"), policies=Policies(on_mismatch=policy))
    there: dict[str, ScannedFile] = {}
    state = ArchiveState()
    tables: dict[str, ChunkTable] = {}
    for _ in range(3):
        gone = {url for url in there if data.draw(st.integers(0, 3)) == 0}
        new = [daily_file(day, fill_value=fill) for day, fill in data.draw(NEWS).items()]
        fresh = {file.url for file in new}
        there = {url: file for url, file in there.items() if url not in gone}
        there |= {file.url: file for file in new}
        groups = state.outcome.groups
        before = plan_placement(state.files, declared, known_groups=groups)
        files = merge_columns([without_files(state.files, gone | fresh), columns(new, declared)])
        after = plan_placement(files, declared, known_groups=groups)
        assume(not after.problems)
        updates = plan_updates(before, after, fresh)
        tables = applied(tables, updates, after, there)
        wanted = reference_tables(after, there.values())
        assert {path: rows_of(table) for path, table in tables.items() if path in wanted} == {
            path: rows_of(table) for path, table in wanted.items()
        }
        assert tables.keys() == wanted.keys()
        outcome = outcome_of(after, declared)
        state = decode_state(encode_state(ArchiveState(files=files, outcome=outcome)))
        again = plan_placement(state.files, declared, known_groups=state.outcome.groups)
        assert outcome_of(again, declared) == state.outcome == outcome
        assert plan_updates(after, again, set()).is_empty
