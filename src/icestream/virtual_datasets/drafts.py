"""Changes that reach a session all at once, or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from icestream.repository.session import ForkSession, Session
from icestream.repository.working_copy import SessionMode, WorkingCopy


@contextmanager
def draft_of(session: Session, arrays: Iterable[str]) -> Iterator[ForkSession]:
    """Give a fork to write to, which is merged into the session if nothing was raised.

    Unlike `session.fork()` nothing is stored for it. It sees all nodes, but uncommitted chunks only
    of the arrays at these paths: to copy those of all arrays would make the cost of many appends in
    one session quadratic.
    """
    copy = session._copy  # noqa: SLF001  a fork of another kind
    snapshot, changes = copy.copy_changes()
    seen = {node.id for path in arrays if (node := copy.nodes.find(path)) is not None}
    changes.chunks = {i: edits for i, edits in changes.chunks.items() if i in seen}
    before = dict(changes.nodes)
    draft = ForkSession(copy.context, snapshot, mode=SessionMode.writable)
    draft._copy = WorkingCopy(copy.context, snapshot, SessionMode.writable, changes)  # noqa: SLF001  same
    yield draft
    made = draft._copy.changes  # noqa: SLF001  same
    # what other threads did to other nodes meanwhile must not be undone
    made.nodes = {
        path: node
        for path, node in made.nodes.items()
        if path not in before or before[path] != node
    }
    session.merge(draft)
