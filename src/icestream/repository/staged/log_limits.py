"""How many chunks the transaction log of one commit can name."""

from collections.abc import Iterable

from icestream.codec.columns import MAX_BUFFER_BYTES
from icestream.codec.transaction_logs import logged_chunk_bytes
from icestream.errors import InvalidInputError
from icestream.model.changed_indexes import ChangedIndexes

_MOST_CHUNKS = 50_000_000
"""icechunk verifies a log before use, and gives up beyond some number of tables."""
_MOST_BYTES = MAX_BUFFER_BYTES - 2**26
"""What is left for chunks: nodes, and arrays that are edited in the session, are named as well."""


def share_of_log(part: ChangedIndexes, max_chunks: int = _MOST_CHUNKS) -> float:
    """Return how much of one log the chunks of a part take, if it may name so many; 1 is full."""
    by_bytes = len(part) * logged_chunk_bytes(part.rank) / _MOST_BYTES
    return max(len(part) / max_chunks, by_bytes)


def check_log_size(parts: Iterable[ChangedIndexes]) -> None:
    """Refuse what no transaction log has room for."""
    parts = list(parts)
    if sum(map(share_of_log, parts)) > 1:
        raise InvalidInputError(
            f"a commit cannot name {sum(map(len, parts))} changed chunks; use split_into_commits "
            "and publish_staged, and smaller manifests where one alone is too large"
        )
