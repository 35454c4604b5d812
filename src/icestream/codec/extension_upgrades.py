"""Older forms of what is stored under the key `icestream`, made current when they are read."""

from collections.abc import Callable
from typing import Any

type Tree = dict[str, Any]


def upgraded_extension(tree: Tree) -> Tree:
    """Return the content of the key in the form of the current version.

    A document without a version was written by hand.
    """
    version = tree.get("version", 0)
    if not isinstance(version, int):
        return tree
    for number, upgrade in enumerate(_UPGRADES):
        if number >= version:
            tree = {**upgrade(tree), "version": number + 1}
    return tree


def _with_listed_containers(tree: Tree) -> Tree:
    """Accept containers by prefix, as people write them who know icechunk's own list."""
    containers = tree.get("containers")
    if not isinstance(containers, dict) or not all(
        isinstance(content, dict) for content in containers.values()
    ):
        return tree
    listed = [{"prefix": prefix, **content} for prefix, content in containers.items()]
    return {**tree, "containers": listed}


_UPGRADES: tuple[Callable[[Tree], Tree], ...] = (_with_listed_containers,)
"""The n-th one brings version n to version n + 1."""
