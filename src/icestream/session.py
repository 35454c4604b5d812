"""Sessions, under the public names of the icechunk package."""

from icestream.model.chunk_refs import ChunkType
from icestream.model.ops_log import RepoAvailability, RepoStatus
from icestream.repository.session import ForkSession, Session
from icestream.repository.working_copy import SessionMode

__all__ = [
    "ChunkType",
    "ForkSession",
    "RepoAvailability",
    "RepoStatus",
    "Session",
    "SessionMode",
]
