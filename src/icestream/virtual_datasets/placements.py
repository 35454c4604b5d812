"""Where the chunks of a dataset go: into new arrays, behind the old ones, or over some of them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from icestream.errors import AlreadyExistsError, ErrorKind, InvalidInputError, NodeNotFoundError
from icestream.model.nodes import ArrayNode, Node


@dataclass(frozen=True, slots=True)
class Box:
    """Where a variable goes in its array."""

    start: tuple[int, ...]
    """Index of its first chunk."""
    shape: tuple[int, ...]
    """Of the array, when the variable is in it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a dataset does to arrays that are there."""

    append_dim: Hashable | None = None
    region: Mapping[str, slice] | None = field(default=None)

    def expect(self, name: str, dims: Sequence[Hashable], node: Node | None, path: str) -> None:
        """Refuse a variable whose place is taken, or is not there.

        Raises:
            AlreadyExistsError: It is taken.
            NodeNotFoundError: It is not there.
        """
        if node is None:
            if self.region is not None or self.append_dim in dims:
                raise NodeNotFoundError(
                    f"there is no array at {path} that the variable {name!r} could be added to; "
                    "write a dataset without append_dim and region first"
                )
        elif not isinstance(node, ArrayNode) or (self.append_dim is None and self.region is None):
            raise AlreadyExistsError(
                f"there is a node at {path}, so the variable {name!r} cannot be created; add to an "
                "array with append_dim or region, delete it, or choose another group",
                kind=ErrorKind.NODE_ALREADY_EXISTS,
            )

    def box(
        self,
        name: str,
        dims: Sequence[Hashable],
        lengths: tuple[Sequence[int], Sequence[int]],
        chunks: Sequence[int],
    ) -> Box:
        """Return where a variable goes in an array, given the lengths of both.

        Raises:
            InvalidInputError: It does not fit, or not in whole chunks.
        """
        new, old = lengths
        spans = [
            self._span(f"the variable {name!r}", dim, n, was)
            for dim, n, was in zip(dims, new, old, strict=True)
        ]
        for dim, (start, stop), was, chunk in zip(dims, spans, old, chunks, strict=True):
            if start % (chunk or 1) or (stop < was and stop % chunk):
                raise InvalidInputError(
                    f"the variable {name!r} would go to {dim} {start} to {stop}, which is not in "
                    f"whole chunks of {chunk}: references cannot be cut; load the variable to "
                    "write its values (loadable_variables)",
                    kind=ErrorKind.INVALID_CHUNK_INDEX,
                )
        return Box(
            start=tuple(
                start // (chunk or 1) for (start, _), chunk in zip(spans, chunks, strict=True)
            ),
            shape=tuple(max(stop, was) for (_, stop), was in zip(spans, old, strict=True)),
        )

    def _span(self, what: str, dim: Hashable, length: int, old: int) -> tuple[int, int]:
        """Return the first position along a dimension, and the one after the last."""
        if dim == self.append_dim:
            return old, old + length
        wanted = slice(None) if self.region is None else self.region.get(str(dim), slice(None))
        start, stop, _ = wanted.indices(old)
        if stop - start != length:
            raise InvalidInputError(
                f"{what} has {length} values along {dim}, and its place has {stop - start}",
                kind=ErrorKind.INVALID_ARRAY_METADATA,
            )
        return start, stop
