"""Which files a run has to look at, told from what is known and what the stores list. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from icestream.errors import ErrorKind, SourceError
from icestream.ingest.archive_states import ArchiveState, AsideStatus, scan_digest
from icestream.ingest.declaration.archives import Archive, OnChanged, OnVanished
from icestream.ingest.declaration.documents import decode_archive

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges:
    """What happened to the files of an archive since the last run."""

    present: Collection[str]
    """URLs of all files that there are."""
    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    vanished: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a run has to do."""

    to_scan: tuple[str, ...] = ()
    """In order."""
    removed: frozenset[str] = frozenset()
    """Files that lose their place because they are gone."""
    vanished: frozenset[str] = frozenset()
    """Files that are gone and keep their place; those of earlier runs among them."""
    num_new: int = 0
    num_changed: int = 0
    num_vanished: int = 0
    notes: tuple[str, ...] = ()


def plan_work(
    state: ArchiveState, changes: SourceChanges, archive: Archive, *, include_undone: bool = False
) -> Work:
    """Return what there is to do.

    Args:
        state: What the last run left.
        changes: What happened since.
        archive: The declaration; its policies say what becomes of changed and vanished files.
        include_undone: Take files up again that were undone.

    Raises:
        SourceError: Files changed or vanished, and the policy is to fail then; or they are gone,
            and have to be scanned by another declaration.
    """
    placed = set(state.files.urls)
    present = set(changes.present)
    changed = [url for url in changes.changed if url in placed]
    # a file that came back is new to the inventory, and known here
    returned = [url for url in changes.added if url in placed]
    gone = [url for url in changes.vanished if url in placed and url not in present]
    policies = archive.policies
    if policies.on_changed is OnChanged.FAIL:
        _refuse("changed", [*changed, *returned], "on-changed")
    if policies.on_vanished is OnVanished.FAIL:
        _refuse("vanished", gone, "on-vanished")
    again, notes = {*changed, *returned}, []
    if scan_digest(archive) != state.declaration_digest and placed:
        _refuse_gone((state.vanished | {*gone}) - present, archive)
        notes.append(f"the declaration has changed: all {len(present)} files are scanned again")
        again = present - (_undone(state) - placed)
    elif _follows_at_last(state, archive):
        notes.append("changes were not followed before: all files are scanned again")
        again |= placed - _undone(state)
    elif policies.on_changed is not OnChanged.UPDATE:
        again = set()
    news = {*changes.added, *changes.changed} - placed
    retried = {file.url for file in state.aside if file.status is AsideStatus.SET_ASIDE} & present
    undone = _undone(state) & present if include_undone else set[str]()
    is_removed = policies.on_vanished is OnVanished.REMOVE
    return Work(
        to_scan=tuple(sorted((again | news | retried | undone) & present)),
        removed=frozenset({*gone, *(state.vanished - present)} if is_removed else ()),
        vanished=frozenset() if is_removed else (state.vanished | {*gone}) - present,
        num_new=len(news - retried),
        num_changed=len(changed) + len(returned),
        num_vanished=len(gone),
        notes=tuple(notes),
    )


def _follows_at_last(state: ArchiveState, archive: Archive) -> bool:
    """Tell whether files are followed from now on, some of which changed and were kept before."""
    if archive.policies.on_changed is not OnChanged.UPDATE or not state.declaration:
        return False
    before = decode_archive(state.declaration.encode())
    return before.policies.on_changed is OnChanged.KEEP


def _undone(state: ArchiveState) -> set[str]:
    return {file.url for file in state.aside if file.status is AsideStatus.UNDONE}


def _refuse(what: str, urls: Iterable[str], policy: str) -> None:
    found = sorted(urls)
    if found:
        raise SourceError(
            f"{len(found)} files have {what} since the last run ({_shown(found)}), and the policy "
            f"{policy} is to fail; change the policy to go on",
            kind=ErrorKind.NOT_ALLOWED,
        )


def _refuse_gone(urls: Collection[str], archive: Archive) -> None:
    """Refuse to keep files that would have to be scanned again, and cannot be."""
    if urls and archive.policies.on_vanished is not OnVanished.REMOVE:
        raise SourceError(
            "the declaration has changed, so that all files are to be scanned again, and "
            f"{len(urls)} of them are gone ({_shown(sorted(urls))}); declare `on-vanished: remove` "
            "to do without them, or bring them back",
            kind=ErrorKind.NOT_ALLOWED,
        )


def _shown(urls: Sequence[str]) -> str:
    return ", ".join(urls[:_SHOWN]) + (" ..." if len(urls) > _SHOWN else "")
