"""What is left of a run, and what an archive is without it. Pure."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, SessionStateError
from icestream.ingest.archive_states import ArchiveState, AsideFile, AsideStatus
from icestream.ingest.declaration.archives import OnVanished
from icestream.ingest.file_columns import ArrayColumns, FileColumns
from icestream.ingest.file_merging import chosen_files, merge_columns, without_files
from icestream.ingest.placement.outcomes import PlacementOutcome
from icestream.ingest.row_numbers import first_rows

type Identity = tuple[str | None, int, int]
"""ETag, size and time of change of a file when it was read."""

_TEXT = pa.large_string()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UndoInput:
    """A run, and what was known before it, after it, and is known now."""

    number: int
    before: ArchiveState
    after: ArchiveState
    now: ArchiveState
    commit_before: int | None = None
    """The number of the last run before it that committed to the repository."""
    present: frozenset[str] = frozenset()
    """URLs of files that there are, as far as listings tell."""
    ingested_since: frozenset[str] = frozenset()
    """URLs of files that later runs ingested as new."""

    @property
    def reason(self) -> str:
        """Why its files are left out."""
        return f"run {self.number} was undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What becomes of the files of a run."""

    left_out: frozenset[str] = frozenset()
    """Those that it brought."""
    restored: frozenset[str] = frozenset()
    """Those that it changed or removed: they become what they were."""
    kept: frozenset[str] = frozenset()
    """Those that a later run has touched again; they stay."""

    @property
    def files(self) -> frozenset[str]:
        """All that are not what they were before the undo."""
        return self.left_out | self.restored


def plan_undo(given: UndoInput) -> Undo:
    """Return what has to be undone of a run; nothing, if nothing of it is left."""
    before, after = identities(given.before.files), identities(given.after.files)
    now = identities(given.now.files)
    touched = {url for url in before.keys() | after if before.get(url) != after.get(url)}
    later = {
        url for url in touched if now.get(url) != after.get(url) or url in given.ingested_since
    }
    mine = touched - later
    return Undo(
        left_out=frozenset(mine - before.keys()),
        restored=frozenset(mine & before.keys()),
        kept=frozenset(later & now.keys()),
    )


def identities(files: FileColumns) -> dict[str, Identity]:
    """Return by URL what tells two versions of a file apart."""
    columns = files.etags.to_pylist(), files.sizes.tolist(), files.last_modified.tolist()
    return dict(zip(files.urls, zip(*columns, strict=True), strict=True))


# -- the archive without the run ------------------------------------------------------------------


def files_without(given: UndoInput, undo: Undo) -> FileColumns:
    """Return what is known of files when a run is undone.

    What is known since before the run is taken from there, with attributes as they were then.

    Raises:
        SessionStateError: Files were scanned by another declaration then.
    """
    now = given.now.files
    if given.before.declaration_digest != given.now.declaration_digest:
        if undo.restored:
            raise SessionStateError(
                f"run {given.number} changed or removed {len(undo.restored)} files, and what was "
                "known of them before was found out by another declaration of the archive: they "
                "cannot be placed among the others; declare it as it was, run, then undo",
                kind=ErrorKind.NOT_ALLOWED,
            )
        return without_files(now, undo.left_out)
    known, current = identities(given.before.files), identities(now)
    same = {url for url, identity in known.items() if current.get(url) == identity}
    old = _only(given.before.files, same | undo.restored)
    new = without_files(now, {*old.urls, *undo.left_out})
    return merge_columns([old, _without_traces(new, now, old, undo.files)])


def groups_without(given: UndoInput, undo: Undo) -> dict[str, str]:
    """Return by URL the groups that files know when a run is undone."""
    before = {
        url: name for url, name in given.before.outcome.groups.items() if url in undo.restored
    }
    now = {url: name for url, name in given.now.outcome.groups.items() if url not in undo.files}
    return now | before


def state_without(
    given: UndoInput, undo: Undo, files: FileColumns, outcome: PlacementOutcome
) -> ArchiveState:
    """Return what the next run has to know when a run is undone.

    Args:
        given: The run.
        undo: What becomes of its files.
        files: From `files_without`.
        outcome: Of their placement.
    """
    aside = [file for file in given.now.aside if file.url not in undo.files]
    return replace(
        given.now,
        files=files,
        vanished=given.now.vanished & {*files.urls},
        aside=tuple(sorted([*aside, *_undone(given, undo)], key=lambda file: file.url)),
        outcome=outcome,
    )


def with_vanished(
    state: ArchiveState, given: UndoInput, undo: Undo, policy: OnVanished
) -> ArchiveState:
    """Return a state that tells that files which are back in the archive are gone from the source.

    It is not told where the next run would remove them again for it.
    """
    if policy is OnVanished.REMOVE:
        return state
    return replace(state, vanished=state.vanished | (undo.restored - given.present))


def _undone(given: UndoInput, undo: Undo) -> list[AsideFile]:
    """Return files as they were until now, for runs to leave out what they have become."""
    found = {
        url: AsideFile(url, AsideStatus.UNDONE, given.reason, *identity)
        for url, identity in identities(given.now.files).items()
        if url in undo.files
    }
    failed = {
        file.url: replace(file, status=AsideStatus.UNDONE, reason=given.reason)
        for file in given.now.aside
        if file.url in undo.files
    }
    return [file for url, file in (failed | found).items() if url in given.present]


# -- attributes that only files tell which are gone -----------------------------------------------


def _without_traces(
    files: FileColumns, whole: FileColumns, others: FileColumns, gone: frozenset[str]
) -> FileColumns:
    """Return files with attributes that others have, where they are those of a file that is gone.

    Args:
        files: Some of the files.
        whole: All of them: attributes are those of the first file that has them.
        others: Files with attributes of their own.
        gone: URLs.
    """
    if not len(files):
        return files
    stale = {
        path
        for path, row in whole.group_file.items()
        if whole.urls[row] in gone and path in others.groups
    }
    return replace(
        files,
        groups={
            path: others.groups[path] if path in stale else one
            for path, one in files.groups.items()
        },
        arrays={
            path: _retold(array, _stale_forms(whole, path, gone), others.arrays.get(path))
            for path, array in files.arrays.items()
        },
    )


def _stale_forms(whole: FileColumns, path: str, gone: frozenset[str]) -> set[object]:
    array = whole.arrays[path]
    first = array.files[first_rows(array.form)].tolist()
    return {form for form, row in zip(array.forms, first, strict=True) if whole.urls[row] in gone}


def _retold(array: ArrayColumns, stale: set[object], other: ArrayColumns | None) -> ArrayColumns:
    if other is None or not stale:
        return array
    known = dict(zip(other.forms, other.metadata, strict=True))
    return replace(
        array,
        metadata=tuple(
            known.get(form, own) if form in stale else own
            for form, own in zip(array.forms, array.metadata, strict=True)
        ),
    )


def _only(files: FileColumns, urls: set[str] | frozenset[str]) -> FileColumns:
    wanted = pa.array(list(urls), _TEXT)
    chosen = pc.is_in(pa.array(files.urls, _TEXT), value_set=wanted)
    return chosen_files(files, chosen.to_numpy(zero_copy_only=False).astype(np.bool_))
