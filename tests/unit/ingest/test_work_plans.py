"""Which files a run looks at."""

import pytest

from icestream.errors import SourceError
from icestream.ingest.archive_states import ArchiveState, AsideFile, AsideStatus, scan_digest
from icestream.ingest.declaration.archives import (
    Archive,
    OnChanged,
    OnVanished,
    Policies,
    Target,
)
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.facts import FileFacts
from icestream.ingest.file_columns import gather
from icestream.ingest.work_plans import SourceChanges, Work, plan_work
from icestream.parsers.scanned_files import FileIdentity


def archive_with(**policies) -> Archive:
    return Archive(
        name="sst",
        sources=("s3://b/",),
        target=Target(repository="r"),
        policies=Policies(**policies),
    )


def work_of(
    placed: str,
    present: str,
    *,
    changed: str = "",
    aside: tuple[AsideFile, ...] = (),
    vanished: str = "",
    archive: Archive | None = None,
    **others,
) -> Work:
    """Plan with files of one letter."""
    archive = archive or archive_with()
    state = ArchiveState(
        files=gather(FileFacts(url, FileIdentity(1), {}) for url in placed),
        aside=aside,
        vanished=frozenset(vanished),
        declaration_digest=others.pop("digest", scan_digest(archive)),
        declaration=others.pop("declaration", ""),
    )
    known = {*placed, *(file.url for file in aside)}
    changes = SourceChanges(
        present=present,
        added=[url for url in present if url not in known or url in vanished],
        changed=[*changed],
        vanished=[url for url in known - set(present) if url not in vanished],
    )
    return plan_work(state, changes, archive, **others)


def test_nothing_new_is_nothing_to_do():
    assert work_of("abc", "abc") == Work()


def test_new_files_are_scanned_in_order():
    work = work_of("b", "cab")

    assert work.to_scan == ("a", "c")
    assert work.num_new == 2


def test_a_changed_file_is_scanned_again():
    work = work_of("abc", "abc", changed="b")

    assert (work.to_scan, work.num_changed) == (("b",), 1)


def test_a_changed_file_may_be_left_as_it_was():
    work = work_of("abc", "abc", changed="b", archive=archive_with(on_changed=OnChanged.KEEP))

    assert (work.to_scan, work.num_changed) == ((), 1)


def test_changes_may_be_forbidden():
    with pytest.raises(SourceError, match=r"b.*on-changed"):
        work_of("abc", "abc", changed="b", archive=archive_with(on_changed=OnChanged.FAIL))


def test_a_vanished_file_keeps_its_place_and_is_told_once():
    first = work_of("abc", "ab")
    second = work_of("abc", "ab", vanished="c")

    assert (first.vanished, first.num_vanished) == (frozenset("c"), 1)
    assert (second.vanished, second.num_vanished) == (frozenset("c"), 0)
    assert first.removed == second.removed == frozenset()


def test_vanished_files_are_removed_if_asked_for_also_those_of_earlier_runs():
    archive = archive_with(on_vanished=OnVanished.REMOVE)

    assert work_of("abc", "ab", archive=archive).removed == frozenset("c")
    assert work_of("abc", "ab", vanished="c", archive=archive).removed == frozenset("c")


def test_vanishing_may_be_forbidden():
    with pytest.raises(SourceError, match=r"c.*on-vanished"):
        work_of("abc", "ab", archive=archive_with(on_vanished=OnVanished.FAIL))


def test_a_file_that_comes_back_is_scanned_again():
    work = work_of("abc", "abc", vanished="c")

    assert work.to_scan == ("c",)
    assert work.vanished == frozenset()


def test_files_set_aside_are_tried_again_and_are_not_new():
    broken = AsideFile("x", AsideStatus.SET_ASIDE, "no HDF5 file")
    work = work_of("ab", "abx", aside=(broken,))

    assert (work.to_scan, work.num_new) == (("x",), 0)


def test_files_set_aside_that_vanished_are_forgotten():
    broken = AsideFile("x", AsideStatus.SET_ASIDE, "no HDF5 file")

    assert work_of("ab", "ab", aside=(broken,)) == Work()


def test_undone_files_wait_until_they_change_or_are_asked_for():
    undone = (AsideFile("x", AsideStatus.UNDONE, "run 2 was undone"),)

    assert work_of("ab", "abx", aside=undone).to_scan == ()
    assert work_of("ab", "abx", aside=undone, changed="x").to_scan == ("x",)
    assert work_of("ab", "abx", aside=undone, include_undone=True).to_scan == ("x",)


def test_files_that_are_again_what_they_were_wait_too():
    restored = (AsideFile("b", AsideStatus.UNDONE, "run 2 was undone"),)

    assert work_of("ab", "ab", aside=restored).to_scan == ()
    assert work_of("ab", "ab", aside=restored, include_undone=True).to_scan == ("b",)
    # what is known of them was found out by the other declaration
    assert work_of("ab", "ab", aside=restored, digest="of another").to_scan == ("a", "b")


def test_another_declaration_means_to_scan_everything_again():
    undone = (AsideFile("x", AsideStatus.UNDONE, "run 2 was undone"),)
    work = work_of("ab", "abx", aside=undone, digest="of another")

    assert work.to_scan == ("a", "b")
    assert "declaration" in work.notes[0]


def test_files_that_are_gone_cannot_be_scanned_by_another_declaration():
    with pytest.raises(SourceError, match=r"\(c, d\).*on-vanished"):
        work_of("abcd", "ab", vanished="c", digest="of another")
    archive = archive_with(on_vanished=OnVanished.REMOVE)
    work = work_of("abcd", "ab", vanished="c", digest="of another", archive=archive)

    assert (work.to_scan, work.removed) == (("a", "b"), frozenset("cd"))


def test_changes_that_were_kept_are_followed_when_the_policy_is_another():
    undone = (AsideFile("b", AsideStatus.UNDONE, "run 2 was undone"),)
    keeping = encode_archive(archive_with(on_changed=OnChanged.KEEP)).decode()

    assert work_of("abc", "abc", aside=undone, declaration=keeping).to_scan == ("a", "c")
    following = encode_archive(archive_with()).decode()
    assert work_of("abc", "abc", aside=undone, declaration=following).to_scan == ()
