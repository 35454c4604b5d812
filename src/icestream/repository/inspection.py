"""The files of a repository as JSON."""

from icestream.repository.core import RepositoryCore


class Inspection(RepositoryCore):
    """The part of a repository that shows its files."""
