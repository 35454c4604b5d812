"""Small types, under the public names of the icechunk package."""

from icestream.repository.maintenance import CommitMethod

__all__ = ["CommitMethod"]
