"""Parts of an array that are copied at once: whole chunks of the copy, within some memory."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

type Box = tuple[tuple[int, int], ...]
"""First and behind the last element, per dimension."""


def block_boxes(
    shape: Sequence[int],
    chunks: tuple[Sequence[int], Sequence[int]],
    max_elements: int,
) -> Iterator[Box]:
    """Yield boxes that fill an array together, in order.

    Each is of whole chunks of the copy, and of whole chunks of the original too as far as they are
    not too large: else some of these are read more than once.

    Args:
        shape: Elements per dimension.
        chunks: Those of the original and those of the copy.
        max_elements: In one box; one chunk of the copy is always allowed.
    """
    block = _block_shape(shape, chunks, max_elements)
    starts = (range(0, length, step) for length, step in zip(shape, block, strict=True))
    for start in product(*starts):
        yield tuple(
            (lo, min(lo + step, length))
            for lo, step, length in zip(start, block, shape, strict=True)
        )


def _block_shape(
    shape: Sequence[int], chunks: tuple[Sequence[int], Sequence[int]], max_elements: int
) -> list[int]:
    originals, copies = chunks
    block = [max(size, 1) for size in copies]
    for dim in reversed(range(len(block))):
        copy = block[dim]
        wanted = math.lcm(max(originals[dim], 1), copy) // copy
        needed = -(-shape[dim] // copy)
        room = max_elements // math.prod(block)
        block[dim] = copy * max(min(wanted, needed, room), 1)
    return block
