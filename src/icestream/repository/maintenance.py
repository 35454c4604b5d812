"""Expiring, collecting and rewriting."""

from icestream.repository.core import RepositoryCore


class Maintenance(RepositoryCore):
    """The part of a repository that keeps it small."""
