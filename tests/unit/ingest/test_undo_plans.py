"""What is left of a run, told from what was known before and after it."""

from dataclasses import replace
from typing import Any

import pytest
from tests.ingest_builders import archive, columns, daily_file

from icestream.errors import SessionStateError
from icestream.ingest.archive_states import ArchiveState, AsideFile, AsideStatus
from icestream.ingest.declaration.archives import Axis, OnVanished
from icestream.ingest.placement.outcomes import PlacementOutcome
from icestream.ingest.undo_plans import (
    UndoInput,
    files_without,
    identities,
    plan_undo,
    state_without,
    with_vanished,
)
from icestream.parsers.scanned_files import FileIdentity, ScannedFile

TIME = archive(Axis(dimension="time"))
URLS = [daily_file(number).url for number in range(6)]


def file(number: int, version: str = "a") -> ScannedFile:
    return replace(daily_file(number), identity=FileIdentity(size=7, etag=version))


def state(files: dict[int, str]) -> ArchiveState:
    known = columns([file(number, version) for number, version in files.items()], TIME)
    return ArchiveState(files=known)


def story(*known: dict[int, str], **rest: Any) -> UndoInput:
    """Return run 2, by what was known before it, after it and now."""
    before, after, *now = map(state, known)
    given = {"present": frozenset(URLS), **rest}
    return UndoInput(number=2, before=before, after=after, now=(now or [after])[0], **given)


def numbers(urls: frozenset[str]) -> set[int]:
    return {*map(URLS.index, urls)}


@pytest.mark.parametrize(
    ("known", "left_out", "restored", "kept"),
    [
        ([{0: "a"}, {0: "a", 1: "a"}], {1}, set(), set()),
        ([{0: "a"}, {0: "b"}], set(), {0}, set()),
        ([{0: "a", 1: "a"}, {0: "a"}], set(), {1}, set()),
        ([{0: "a"}, {0: "a", 1: "a"}, {0: "a", 1: "b"}], set(), set(), {1}),
        ([{0: "a"}, {0: "b"}, {0: "c"}], set(), set(), {0}),
        ([{0: "a"}, {0: "b", 1: "a"}, {0: "a"}], set(), set(), {0}),
        ([{}, {0: "a", 1: "a"}, {0: "a", 1: "b", 2: "a"}], {0}, set(), {1}),
    ],
    ids=["added", "changed", "removed", "changed later", "twice", "undone", "partly"],
)
def test_files_of_a_run_are_told_by_what_they_were(
    known: list[dict[int, str]], left_out: set[int], restored: set[int], kept: set[int]
) -> None:
    undo = plan_undo(story(*known))
    found = numbers(undo.left_out), numbers(undo.restored), numbers(undo.kept)
    assert found == (left_out, restored, kept)


def test_a_file_that_a_later_run_took_in_again_is_of_that_run() -> None:
    known = {0: "a"}, {0: "a", 1: "a"}
    undo = plan_undo(story(*known, ingested_since=frozenset({URLS[1]})))
    assert (undo.files, numbers(undo.kept)) == (frozenset(), {1})


def test_without_the_run_files_are_what_they_were() -> None:
    given = story(
        {0: "a", 1: "a", 4: "a"}, {0: "b", 1: "a", 2: "a"}, {0: "b", 1: "a", 2: "a", 3: "a"}
    )
    found = identities(files_without(given, plan_undo(given)))
    assert {URLS.index(url): etag for url, (etag, *_) in found.items()} == dict.fromkeys(
        (0, 1, 3, 4), "a"
    )


def test_files_are_set_aside_as_they_are_where_they_are_still_there() -> None:
    given = story({0: "a", 3: "a"}, {0: "b", 1: "a", 2: "a"}, present=frozenset([URLS[0], URLS[1]]))
    broken = AsideFile(URLS[5], AsideStatus.SET_ASIDE, "is broken")
    given = replace(given, now=replace(given.now, aside=(broken,)))
    undo = plan_undo(given)
    after = state_without(given, undo, files_without(given, undo), PlacementOutcome())
    assert [(one.url, one.status, one.etag) for one in after.aside] == [
        (URLS[0], AsideStatus.UNDONE, "b"),
        (URLS[1], AsideStatus.UNDONE, "a"),
        (URLS[5], AsideStatus.SET_ASIDE, None),
    ]
    assert after.aside[0].reason == "run 2 was undone"
    kept = with_vanished(after, given, undo, OnVanished.KEEP)
    assert kept.vanished == {URLS[3]}
    assert with_vanished(after, given, undo, OnVanished.REMOVE).vanished == frozenset()


def test_what_another_declaration_found_out_cannot_be_restored() -> None:
    given = story({0: "a"}, {0: "b", 1: "a"})
    given = replace(given, now=replace(given.now, declaration_digest="another"))
    with pytest.raises(SessionStateError, match="run 2 changed or removed 1 files"):
        files_without(given, plan_undo(given))
    added = replace(given, before=state({0: "b"}))
    assert files_without(added, plan_undo(added)).urls == (URLS[0],)
