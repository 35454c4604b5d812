"""Which manifest set an array is meant for."""

from collections.abc import Iterable

from icestream.model.manifest_sets import DEFAULT_SET, ChunkRange, ManifestRule


def apply_rules(
    array_path: str,
    metadata_chunks: int,
    initialized_chunks: int,
    rules: Iterable[ManifestRule],
) -> str:
    """Return the target of the first rule all of whose conditions hold, else `default`.

    Args:
        array_path: Absolute, with a leading `/`; an expression must match all of it.
        metadata_chunks: How many chunks the shape of the whole array has room for.
        initialized_chunks: How many chunks of the whole array have a reference.
        rules: In order.
    """
    return next(
        (
            rule.target
            for rule in rules
            if _is_in(rule.metadata_chunks, metadata_chunks)
            and _is_in(rule.initialized_chunks, initialized_chunks)
            and rule.matches_path(array_path)
        ),
        DEFAULT_SET,
    )


def _is_in(condition: ChunkRange | None, count: int) -> bool:
    return condition is None or condition.contains(count)
