"""What all parts of a repository's public class share."""

from typing import TypeGuard

from icestream.model.ids import SnapshotId, parse_snapshot_id
from icestream.repository.context import Context
from icestream.repository.spec1 import needs_spec2
from icestream.repository.spec2 import RepoInfoTimeline
from icestream.repository.timeline import Timeline


class RepositoryCore:
    """An open repository: its context, and how parts of the public class get at it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def _repo_info_timeline(self, what: str) -> RepoInfoTimeline:
        """Return the timeline of format version 2, or refuse `what` in version 1."""
        timeline = self._context.timeline
        if not _is_spec2(timeline):
            raise needs_spec2(what)
        return timeline

    def _resolve(self, branch: str | None, tag: str | None, snapshot_id: str | None) -> SnapshotId:
        """Return the snapshot that exactly one of branch, tag and id names."""
        timeline = self._context.timeline
        if snapshot_id is not None:
            return timeline.entry(parse_snapshot_id(snapshot_id)).id
        if tag is not None:
            return timeline.tag_target(tag)
        return timeline.branch_tip(branch or "")


def _is_spec2(timeline: Timeline) -> TypeGuard[RepoInfoTimeline]:
    return isinstance(timeline, RepoInfoTimeline)
