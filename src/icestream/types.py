"""Small types, under the public names of the icechunk package."""

from typing import Literal

type CommitMethod = Literal["new_commit", "amend"]

__all__ = ["CommitMethod"]
