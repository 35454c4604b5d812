"""Manifest sets, rules and preloading in the form that people write.

A set is a mapping with one entry, its name, in a list. Null is the same as an absent key, except
for `cardinality`: absent it is 1, null it is unlimited.
"""

import re
from collections.abc import Mapping
from typing import Any

from icestream.codec.tree_reading import TreeReader
from icestream.model.manifest_sets import (
    ROOT,
    ChunkManifests,
    ChunkRange,
    ManifestPreload,
    ManifestRule,
    ManifestSet,
    key_of,
)

_SETTINGS = ("sets", "rules", "preload")
_SET_SETTINGS = (
    "max_manifest_size",
    "arrays_per_manifest",
    "cardinality",
    "overflow_to",
    "split_oversized",
)
_RANGES = ("metadata_chunks", "initialized_chunks")
_RULE_SETTINGS = ("path", *_RANGES, "target")
_PRELOAD_SETTINGS = ("max_manifest_size", "max_manifests", "arrays")
_NUMBERS = frozenset({"max_manifest_size", "arrays_per_manifest", "cardinality", "max_manifests"})

_OTHER_SPELLINGS: Mapping[str, str] = {
    "max-size": "max-manifest-size",
    "max-arrays-per-manifest": "arrays-per-manifest",
}
_GROUPED_NUMBER = re.compile(r"[0-9]+(?:_[0-9]+)+")
"""What YAML of today reads as text, and people write for readability."""


# -- encoding -------------------------------------------------------------------------------------


def chunk_manifests_tree(chunk_manifests: ChunkManifests) -> dict[str, Any]:
    """Return what is written of manifest sets, rules and preloading."""
    tree: dict[str, Any] = {}
    if chunk_manifests.sets:
        tree["sets"] = [{one.name: _set_tree(one)} for one in chunk_manifests.sets]
    if chunk_manifests.rules:
        tree["rules"] = [_rule_tree(rule) for rule in chunk_manifests.rules]
    if chunk_manifests.preload is not None:
        preload = _given(chunk_manifests.preload, _PRELOAD_SETTINGS)
        preload["arrays"] = [{"path": regex} for regex in chunk_manifests.preload.arrays]
        tree["preload"] = preload
    return tree


def _set_tree(one: ManifestSet) -> dict[str, Any]:
    tree = _given(one, _SET_SETTINGS)
    if one.cardinality == 1:
        del tree["cardinality"]
    elif not one.is_default:
        tree["cardinality"] = one.cardinality
    return tree


def _rule_tree(rule: ManifestRule) -> dict[str, Any]:
    tree = _given(rule, _RULE_SETTINGS)
    for key in map(key_of, _RANGES):
        if key in tree:
            tree[key] = [tree[key].start, tree[key].stop]
    return tree


def _given(
    part: ManifestSet | ManifestRule | ManifestPreload, names: tuple[str, ...]
) -> dict[str, Any]:
    values = {key_of(name): getattr(part, name) for name in names}
    return {key: value for key, value in values.items() if value is not None}


# -- decoding -------------------------------------------------------------------------------------


def read_chunk_manifests(reader: TreeReader, tree: Any) -> ChunkManifests:
    """Return manifest sets, rules and preloading; what single settings may be is not checked."""
    content = _content(reader, tree, ROOT, _SETTINGS)
    sets = (
        _set(reader, item, f"{ROOT}.sets[{i}]")
        for i, item in enumerate(_items(reader, content, "sets", ROOT))
    )
    rules = (
        _rule(reader, item, f"{ROOT}.rules[{i}]")
        for i, item in enumerate(_items(reader, content, "rules", ROOT))
    )
    preload = content.get("preload")
    return ChunkManifests(
        tuple(one for one in sets if one is not None),
        tuple(rules),
        None if preload is None else _preload(reader, preload, f"{ROOT}.preload"),
    )


def _set(reader: TreeReader, item: Any, path: str) -> ManifestSet | None:
    if not isinstance(item, dict) or len(item) != 1:
        reader.fault(path, "is not the name of a set with its settings")
        return None
    ((name, body),) = item.items()
    at = f"{path}.{name}"
    content = {} if body is None else _content(reader, body, at, _SET_SETTINGS)
    given = {key: value for key, value in content.items() if value is not None}
    if "cardinality" in content:
        given["cardinality"] = content["cardinality"]
    one = ManifestSet(name, **given)
    if one.is_default and given.get("cardinality") == 1:
        # the value cannot tell it from an absent key
        reader.fault(f"{at}.cardinality", "the set default takes any number of manifests")
    return one


def _rule(reader: TreeReader, item: Any, path: str) -> ManifestRule:
    content = _content(reader, item, path, _RULE_SETTINGS)
    for name in _RANGES:
        if content.get(name) is not None:
            content[name] = _range(reader, content[name], f"{path}.{key_of(name)}")
    return ManifestRule(**{"target": "", **_without_nulls(content)})


def _range(reader: TreeReader, item: Any, path: str) -> ChunkRange | None:
    match item:
        case [start, stop]:
            return ChunkRange(_number(start), _number(stop))
        case _:
            reader.fault(path, f"{item!r} is not a list of a first number and one after the last")
            return None


def _preload(reader: TreeReader, item: Any, path: str) -> ManifestPreload:
    content = _content(reader, item, path, _PRELOAD_SETTINGS)
    if content.get("arrays") is not None:
        content["arrays"] = tuple(
            _selected_path(reader, one, f"{path}.arrays[{i}]")
            for i, one in enumerate(_items(reader, content, "arrays", path))
        )
    return ManifestPreload(**_without_nulls(content))


def _selected_path(reader: TreeReader, item: Any, path: str) -> Any:
    content = _content(reader, item, path, ("path",))
    if isinstance(item, dict) and content.get("path") is None:
        reader.fault(f"{path}.path", "is missing")
    return content.get("path") or ""


def _content(reader: TreeReader, tree: Any, path: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of a mapping by their names in Python, after checking the keys."""
    known = {key_of(name): name for name in names}
    content: dict[str, Any] = {}
    for written, value in reader.mapping(tree, path).items():
        key = _OTHER_SPELLINGS.get(written, written)
        if key not in known:
            reader.fault(f"{path}.{written}", f"is unknown; there are {', '.join(known)}")
        elif content.get(known[key]) is None:
            content[known[key]] = _number(value) if known[key] in _NUMBERS else value
        elif value is not None:
            reader.fault(f"{path}.{written}", f"{key} is given twice")
    return content


def _items(reader: TreeReader, content: Mapping[str, Any], name: str, path: str) -> list[Any]:
    tree = content.get(name)
    return [] if tree is None else reader.items(tree, f"{path}.{name}")


def _without_nulls(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}


def _number(value: Any) -> Any:
    """Return a number with groups of digits as a number, and everything else as it is."""
    if isinstance(value, str) and _GROUPED_NUMBER.fullmatch(value):
        return int(value)
    return value
