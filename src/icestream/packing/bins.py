"""Items of given sizes are put into bins: as few as possible, or as even as possible."""

import heapq
from collections.abc import Iterator, Sequence

from icestream.errors import ErrorKind, InvalidInputError


def first_fit_decreasing(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """Pack items into few bins, none of them over `capacity`; return their positions by bin.

    Largest first, each into the first bin that has room: at most 11/9 of the fewest possible
    bins, plus 2/3 (Dósa 2007).

    Raises:
        InvalidInputError: An item is larger than a bin.
    """
    if max(sizes, default=0) > capacity:
        raise InvalidInputError(
            f"an item of size {max(sizes)} does not fit into a bin of {capacity}",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    # as many bins as items are enough, and those in use come first
    bins: list[list[int]] = [[] for _ in sizes]
    for item, place in place_decreasing(sizes, [capacity] * len(sizes)):
        if place is not None:
            bins[place].append(item)
    return [items for items in bins if items]


def place_decreasing(
    sizes: Sequence[int], rooms: Sequence[int]
) -> Iterator[tuple[int, int | None]]:
    """Yield each item, largest first, with the first bin that had room for it, or None.

    A tree over the room that is left finds that bin in log n steps.
    """
    tree = _Rooms(rooms)
    for item in _largest_first(sizes):
        yield item, tree.take(sizes[item])


def balanced_groups(sizes: Sequence[int], per_group: int) -> list[list[int]]:
    """Put `per_group` items into every group but the last, so that groups are of similar size.

    Largest first, each into the smallest group that is not full yet: pairs are the largest with
    the smallest item, the second with the second smallest, and so on. A last group with fewer
    places gets larger items.

    Returns:
        The positions of the items, group by group.
    """
    count = -(-len(sizes) // per_group)
    places = [per_group] * count
    if count:
        places[-1] = len(sizes) - per_group * (count - 1)
    groups: list[list[int]] = [[] for _ in range(count)]
    open_groups = [(0, places[position], position) for position in range(count)]
    heapq.heapify(open_groups)
    for item in _largest_first(sizes):
        total, room, position = open_groups[0]
        groups[position].append(item)
        if len(groups[position]) == room:
            heapq.heappop(open_groups)
        else:
            heapq.heapreplace(open_groups, (total + sizes[item], room, position))
    return groups


def _largest_first(sizes: Sequence[int]) -> list[int]:
    return sorted(range(len(sizes)), key=lambda item: -sizes[item])


class _Rooms:
    """The room left in a row of bins, as a binary tree of maxima; node 1 is the root."""

    def __init__(self, rooms: Sequence[int]) -> None:
        self._leaves = 1 << max(len(rooms) - 1, 0).bit_length()
        missing = self._leaves - len(rooms)
        self._rooms = [-1] * self._leaves + list(rooms) + [-1] * missing
        for node in reversed(range(1, self._leaves)):
            self._rooms[node] = max(self._rooms[2 * node], self._rooms[2 * node + 1])

    def take(self, size: int) -> int | None:
        """Take `size` from the first bin that has so much room, and return its position."""
        rooms = self._rooms
        if rooms[1] < size:
            return None
        node = 1
        while node < self._leaves:
            node *= 2
            if rooms[node] < size:
                node += 1
        position = node - self._leaves
        rooms[node] -= size
        while node > 1:
            node //= 2
            rooms[node] = max(rooms[2 * node], rooms[2 * node + 1])
        return position
