"""From a tree of plain values to a configuration, with every fault named by its path.

Structure is checked here; what single settings may be is checked by their rules afterwards. A part
with a fault is left out, and reading goes on.
"""

from dataclasses import replace
from typing import Any

from icestream.codec.chunk_manifests import read_chunk_manifests
from icestream.codec.config_encoding import EXTENSION_KEY, HIGHEST_NUM_REFS, SEED_ERA_KEY
from icestream.codec.container_decoding import read_containers
from icestream.codec.extension_containers import add_own_containers
from icestream.codec.extension_upgrades import upgraded_extension
from icestream.codec.tree_reading import TreeReader
from icestream.model.config import ContainersRule, RepositoryConfig
from icestream.model.config_nodes import (
    U32,
    Choice,
    ConfigNode,
    Fault,
    Part,
    PartList,
    Rule,
    joined,
    rules,
)
from icestream.model.extension_config import EXTENSION_VERSION, ArraysRule, ExtensionConfig
from icestream.model.manifest_conditions import (
    COMPOUND_VARIANTS,
    NUM_REFS,
    REGEX_VARIANTS,
    AnyDimCondition,
    ArrayCondition,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import PreloadRule, SplitRule, SplitSizesRule
from icestream.model.manifest_sets import ROOT as CHUNK_MANIFESTS_KEY
from icestream.model.manifest_sets import ChunkManifests, ChunkManifestsRule
from icestream.model.storage_config import StorageSettings


def config_of_tree(tree: Any) -> tuple[RepositoryConfig, list[Fault]]:
    """Return the configuration in a tree and all that is wrong with it."""
    reader = TreeReader()
    config = _node(reader, RepositoryConfig, tree, "")
    _take_chunk_manifests(reader, config)
    if config.icestream is not None:
        _finish_extension(reader, config, config.icestream)
    overwrite_refs = config.extra.pop(SEED_ERA_KEY, None)
    if overwrite_refs is not None:
        reason = "has become storage.unsafe_use_conditional_create and _update; it is not saved"
        reader.faults.append(Fault(SEED_ERA_KEY, reason, tolerated=True))
    if overwrite_refs is True:
        unsafe = StorageSettings(
            unsafe_use_conditional_create=False, unsafe_use_conditional_update=False
        )
        config.storage = unsafe.merge(config.storage) if config.storage else unsafe
    return config, list(dict.fromkeys([*reader.faults, *config.faults()]))


def _take_chunk_manifests(reader: TreeReader, config: RepositoryConfig) -> None:
    """Read the manifest sets, which are at the top of a document or under our key."""
    extension = config.icestream or ExtensionConfig()
    shown = config.extra.pop(CHUNK_MANIFESTS_KEY, None)
    stored = extension.extra.pop(CHUNK_MANIFESTS_KEY, None)
    if shown is not None:
        config.icestream = extension
        extension.chunk_manifests, faults = _chunk_manifests(shown)
        reader.faults += faults
    if stored is None:
        return
    if shown is not None:
        reader.fault(CHUNK_MANIFESTS_KEY, f"is at the top and under {EXTENSION_KEY} too")
    extension.chunk_manifests, faults = _chunk_manifests(stored)
    if faults:
        # a newer version may have written it; reading does not depend on it
        extension.chunk_manifests = None
        extension.extra[CHUNK_MANIFESTS_KEY] = stored
    reader.faults += (replace(fault, tolerated=True) for fault in faults)


def _chunk_manifests(tree: Any) -> tuple[ChunkManifests | None, list[Fault]]:
    reader = TreeReader()
    read = read_chunk_manifests(reader, tree)
    return None if read == ChunkManifests() else read, [*reader.faults, *read.faults()]


def _finish_extension(
    reader: TreeReader, config: RepositoryConfig, extension: ExtensionConfig
) -> None:
    """Put the containers among the others, and forget what needs no saying."""
    if extension.version == EXTENSION_VERSION:
        extension.version = None
    elif isinstance(extension.version, int):
        reason = f"is {extension.version}, of a newer icestream: what it added has no effect here"
        reader.faults.append(Fault("icestream.version", reason, tolerated=True))
    stored = extension.extra.pop("containers", None)
    if stored is not None:
        containers = config.virtual_chunk_containers or {}
        unread = add_own_containers(reader, stored, containers, _storage_settings)
        config.virtual_chunk_containers = containers
        if unread:
            extension.extra["containers"] = unread
    if extension == ExtensionConfig():
        config.icestream = None


def _storage_settings(reader: TreeReader, tree: Any, path: str) -> StorageSettings:
    return _node(reader, StorageSettings, tree, path)


def _node[T: ConfigNode](reader: TreeReader, node_type: type[T], tree: Any, path: str) -> T:
    node = node_type()
    content = reader.mapping(tree, path)
    if node_type is ExtensionConfig:
        content = upgraded_extension(content)
    known = rules(node_type)
    for name, rule in known.items():
        if content.get(name) is not None:
            setattr(node, name, _value(reader, rule, content[name], joined(path, name)))
    node.extra = {key: value for key, value in content.items() if key not in known}
    return node


def _value(reader: TreeReader, rule: Rule, tree: Any, path: str) -> Any:
    match rule:
        case Part():
            return _node(reader, rule.type, tree, path)
        case Choice():
            return reader.choice(tree, path, rule.names)
        case PreloadRule():
            return _condition(reader, ManifestPreloadCondition, tree, path)
        case ArraysRule():
            return _condition(reader, ManifestSplitCondition, tree, path)
        case ContainersRule():
            return read_containers(reader, tree, path)
        case _:
            return _values(reader, rule, tree, path)


def _values(reader: TreeReader, rule: Rule, tree: Any, path: str) -> Any:
    match rule:
        case PartList():
            parts = enumerate(reader.items(tree, path))
            return tuple(_node(reader, rule.type, part, f"{path}[{i}]") for i, part in parts)
        case SplitSizesRule():
            found = (
                _split_rule(reader, pair, f"{path}[{i}]")
                for i, pair in enumerate(reader.items(tree, path))
            )
            return tuple(pair for pair in found if pair is not None)
        case ChunkManifestsRule():
            reader.fault(path, f"is written {CHUNK_MANIFESTS_KEY}")
            return None
        case _:
            return tree


# -- conditions -----------------------------------------------------------------------------------


def _condition[T: ArrayCondition](
    reader: TreeReader, kind: type[T], tree: Any, path: str
) -> T | None:
    variant, content = reader.variant(tree, path, sorted(kind.variants))
    inner = joined(path, variant)
    if variant in COMPOUND_VARIANTS:
        parts = (
            _condition(reader, kind, part, f"{inner}[{i}]")
            for i, part in enumerate(reader.items(content, inner))
        )
        return kind(variant, conditions=tuple(part for part in parts if part is not None))
    if variant in REGEX_VARIANTS:
        found = reader.fields(content, inner, "regex")
        return found and kind(variant, regex=found[0]["regex"], extra=found[1])
    if variant == NUM_REFS:
        found = reader.fields(content, inner, "from", "to")
        return found and kind(variant, bounds=_bounds(reader, found[0], inner), extra=found[1])
    return kind(variant) if variant else None


def _bounds(
    reader: TreeReader, content: dict[str, Any], path: str
) -> tuple[int | None, int | None]:
    """Return a range as its first number and the first number after it."""
    first = _bound(reader, content["from"], joined(path, "from"), next_if="Excluded")
    stop = _bound(reader, content["to"], joined(path, "to"), next_if="Included")
    return first, None if stop is not None and stop > HIGHEST_NUM_REFS else stop


def _bound(reader: TreeReader, tree: Any, path: str, *, next_if: str) -> int | None:
    variant, number = reader.variant(tree, path, ("Unbounded", "Included", "Excluded"))
    if variant in {"", "Unbounded"} or not reader.follows(U32, number, joined(path, variant)):
        return None
    return int(number) + (variant == next_if)


def _split_rule(reader: TreeReader, tree: Any, path: str) -> SplitRule | None:
    pair = reader.items(tree, path)
    if len(pair) != 2:  # noqa: PLR2004  a pair
        reader.fault(path, "is not a condition and a list of split sizes")
        return None
    condition = _condition(reader, ManifestSplitCondition, pair[0], f"{path}[0]")
    sizes = (
        _split_size(reader, size, f"{path}[1][{i}]")
        for i, size in enumerate(reader.items(pair[1], f"{path}[1]"))
    )
    known = tuple(size for size in sizes if size is not None)
    return None if condition is None else (condition, known)


def _split_size(reader: TreeReader, tree: Any, path: str) -> tuple[AnyDimCondition, int] | None:
    found = reader.fields(tree, path, "condition", "num_chunks")
    if found is None:
        return None
    known, extra = found
    variant, content = reader.variant(
        known["condition"], joined(path, "condition"), ("Axis", "DimensionName", "Any")
    )
    match variant:
        case "Axis":
            return ManifestSplitDimCondition.Axis(content, extra=extra), known["num_chunks"]
        case "DimensionName":
            return ManifestSplitDimCondition.DimensionName(content, extra=extra), known[
                "num_chunks"
            ]
        case "Any":
            return ManifestSplitDimCondition.Any(extra=extra), known["num_chunks"]
        case _:
            return None
