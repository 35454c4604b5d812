"""From a configuration to a tree of plain values, the form that its documents share.

Structs are dicts without the keys that are unset; enum variants that carry something are
`Tagged`, those that do not are texts.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from icestream.codec.chunk_manifests import chunk_manifests_tree
from icestream.codec.extension_containers import (
    CHECKSUM_NAMES,
    fits_icechunk,
    has_own_settings,
    own_container_tree,
)
from icestream.codec.yaml_documents import Tagged
from icestream.model.config import RepositoryConfig
from icestream.model.config_nodes import Choice, ConfigNode, rules
from icestream.model.containers import VirtualChunkContainer
from icestream.model.extension_config import EXTENSION_VERSION
from icestream.model.manifest_conditions import (
    COMPOUND_VARIANTS,
    NUM_REFS,
    REGEX_VARIANTS,
    AnyDimCondition,
    ArrayCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_sets import ROOT as CHUNK_MANIFESTS_KEY
from icestream.model.manifest_sets import ChunkManifests
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ObjectStoreConfig,
)
from icestream.model.platforms import s3_options

SEED_ERA_KEY = "unsafe_overwrite_refs"
"""What `storage.unsafe_use_conditional_*` was called once; read, never written."""

EXTENSION_KEY = "icestream"

UNSAVED_KEYS = frozenset({"storage", SEED_ERA_KEY})

S3_VARIANTS: Mapping[
    str, type[ObjectStoreConfig.S3 | ObjectStoreConfig.S3Compatible | ObjectStoreConfig.Tigris]
] = {
    "s3": ObjectStoreConfig.S3,
    "s3_compatible": ObjectStoreConfig.S3Compatible,
    "tigris": ObjectStoreConfig.Tigris,
}
STORE_VARIANTS: Mapping[str, type[AnyObjectStoreConfig]] = {
    "in_memory": ObjectStoreConfig.InMemory,
    "local_file_system": ObjectStoreConfig.LocalFileSystem,
    "http": ObjectStoreConfig.Http,
    "gcs": ObjectStoreConfig.Gcs,
    "azure": ObjectStoreConfig.Azure,
    **S3_VARIANTS,
}
HIGHEST_NUM_REFS = 2**32 - 1

_STORE_NAMES = {store_type: name for name, store_type in STORE_VARIANTS.items()}


def config_tree(config: RepositoryConfig) -> dict[str, Any]:
    """Return the tree to save, which shares parts with the configuration.

    It has everything that is set but the storage settings. What icechunk cannot have is under one
    key, which it passes over.
    """
    tree = node_tree(config)
    if config.virtual_chunk_containers is not None:
        tree["virtual_chunk_containers"] = {
            key: _container_tree(container)
            for key, container in config.virtual_chunk_containers.items()
            if fits_icechunk(container)
        }
    extension = extension_tree(config)
    if extension is not None:
        tree[EXTENSION_KEY] = extension
    elif config.icestream is not None:
        del tree[EXTENSION_KEY]
    return {key: value for key, value in tree.items() if key not in UNSAVED_KEYS}


def shown_tree(config: RepositoryConfig) -> dict[str, Any]:
    """Return the tree to show to people: what is saved, with the manifest sets at its top."""
    tree = config_tree(config)
    extension = dict(tree.pop(EXTENSION_KEY, {}))
    if CHUNK_MANIFESTS_KEY not in extension:
        return config_tree(config)
    shown = {CHUNK_MANIFESTS_KEY: extension.pop(CHUNK_MANIFESTS_KEY), **tree}
    if extension.keys() - {"version"} or extension["version"] != EXTENSION_VERSION:
        shown[EXTENSION_KEY] = extension
    return shown


def extension_tree(config: RepositoryConfig) -> dict[str, Any] | None:
    """Return what is saved of a configuration that icechunk does not have."""
    containers = [
        own_container_tree(container, node_tree)
        for container in (config.virtual_chunk_containers or {}).values()
        if not fits_icechunk(container) or has_own_settings(container)
    ]
    settings = {} if config.icestream is None else node_tree(config.icestream)
    version = max(settings.pop("version", EXTENSION_VERSION), EXTENSION_VERSION)
    containers += settings.pop("containers", [])
    if containers:
        settings["containers"] = containers
    chunk_manifests = settings.pop("chunk_manifests", None)
    if chunk_manifests:
        settings[CHUNK_MANIFESTS_KEY] = chunk_manifests
    if not settings and version == EXTENSION_VERSION:
        return None  # nothing but a version would look like something that was lost
    return {"version": version, **settings}


def node_tree(node: ConfigNode) -> dict[str, Any]:
    """Return the tree of one part of a configuration."""
    tree: dict[str, Any] = {}
    for name, rule in rules(type(node)).items():
        value = getattr(node, name)
        if isinstance(rule, Choice) and value is not None:
            tree[name] = next(text for text, member in rule.names.items() if member is value)
        elif value is not None:
            tree[name] = _value_tree(value)
    return {**tree, **node.extra}


def _value_tree(value: Any) -> Any:
    match value:
        case ConfigNode():
            return node_tree(value)
        case ArrayCondition():
            return _condition_tree(value)
        case ChunkManifests():
            return chunk_manifests_tree(value)
        case tuple() | list():
            return [
                node_tree(part) if isinstance(part, ConfigNode) else _split_rule_tree(*part)
                for part in value
            ]
        case _:
            return value


def _condition_tree(condition: ArrayCondition) -> Any:
    if condition.variant in COMPOUND_VARIANTS:
        return Tagged(condition.variant, [_condition_tree(part) for part in condition.conditions])
    if condition.variant in REGEX_VARIANTS:
        content: dict[str, Any] = {"regex": condition.regex}
    elif condition.variant == NUM_REFS:
        first, stop = condition.bounds
        content = {"from": _first_tree(first), "to": _stop_tree(stop)}
    else:
        return condition.variant
    return Tagged(condition.variant, {**content, **condition.extra})


def _first_tree(first: int | None) -> Any:
    if first is None:
        return "Unbounded"
    if first > HIGHEST_NUM_REFS:  # not a number of the format
        return Tagged("Excluded", HIGHEST_NUM_REFS)
    return Tagged("Included", first)


def _stop_tree(stop: int | None) -> Any:
    return "Unbounded" if stop is None else Tagged("Excluded", stop)


def _split_rule_tree(
    condition: ManifestSplitCondition, sizes: tuple[tuple[AnyDimCondition, int], ...]
) -> list[Any]:
    return [_condition_tree(condition), [_split_size_tree(dim, size) for dim, size in sizes]]


def _split_size_tree(dim: AnyDimCondition, size: int) -> dict[str, Any]:
    match dim:
        case ManifestSplitDimCondition.Axis():
            condition: Any = Tagged("Axis", dim.axis)
        case ManifestSplitDimCondition.DimensionName():
            condition = Tagged("DimensionName", dim.regex)
        case ManifestSplitDimCondition.Any():
            condition = "Any"
    return {"condition": condition, "num_chunks": size, **dim.extra}


def _container_tree(container: VirtualChunkContainer) -> dict[str, Any]:
    name = {} if container.name is None else {"name": container.name}
    store = _store_tree(container)
    return {"url_prefix": container.url_prefix, "store": store, **name, **container.extra}


def _store_tree(container: VirtualChunkContainer) -> Any:
    store = container.store
    name = _STORE_NAMES[type(store)]
    options = s3_options(store)
    if options is not None:
        content = {f.name: getattr(options, f.name) for f in fields(options)}
        algorithm = options.checksum_algorithm
        content["checksum_algorithm"] = algorithm and CHECKSUM_NAMES[algorithm]
        return Tagged(name, {**content, **container.store_extra})
    match store:
        case ObjectStoreConfig.LocalFileSystem():
            return Tagged(name, store.path)
        case ObjectStoreConfig.Gcs() | ObjectStoreConfig.Azure():
            return Tagged(name, dict(store.opts or {}))
        case ObjectStoreConfig.Http():
            return Tagged(name, {**(store.opts or {}), "headers": dict(store.headers or {})})
        case _:
            return name
