"""Branches and tags."""

from icestream.model.ids import id_text, parse_snapshot_id
from icestream.repository.async_twins import async_twin
from icestream.repository.core import RepositoryCore


class References(RepositoryCore):
    """The part of a repository that names snapshots."""

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Create a branch at a snapshot."""
        self._context.timeline.create_branch(branch, parse_snapshot_id(snapshot_id))

    create_branch_async = async_twin(create_branch)

    def list_branches(self) -> set[str]:
        """Return the names of all branches."""
        return set(self._context.timeline.branches())

    list_branches_async = async_twin(list_branches)

    def lookup_branch(self, branch: str) -> str:
        """Return the id of the newest snapshot of a branch."""
        return id_text(self._context.timeline.branch_tip(branch))

    lookup_branch_async = async_twin(lookup_branch)

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch at another snapshot, if it still points at `from_snapshot_id`."""
        expected = None if from_snapshot_id is None else parse_snapshot_id(from_snapshot_id)
        self._context.timeline.reset_branch(branch, parse_snapshot_id(snapshot_id), expected)

    reset_branch_async = async_twin(reset_branch)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch; its snapshots stay until garbage collection."""
        self._context.timeline.delete_branch(branch)

    delete_branch_async = async_twin(delete_branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Create a tag, which always points at this snapshot."""
        self._context.timeline.create_tag(tag, parse_snapshot_id(snapshot_id))

    create_tag_async = async_twin(create_tag)

    def list_tags(self) -> set[str]:
        """Return the names of all tags."""
        return set(self._context.timeline.tags())

    list_tags_async = async_twin(list_tags)

    def lookup_tag(self, tag: str) -> str:
        """Return the id of the snapshot that a tag points at."""
        return id_text(self._context.timeline.tag_target(tag))

    lookup_tag_async = async_twin(lookup_tag)

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name can never be used again."""
        self._context.timeline.delete_tag(tag)

    delete_tag_async = async_twin(delete_tag)
