"""Containers that icechunk cannot have, as they are stored under the key `icestream`.

One is a mapping with `prefix`, `object_store` (the platform) and how to reach it. Without
`object_store` it only adds settings to the container with that prefix in icechunk's own list.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any, cast

from icestream.codec.tree_reading import TreeReader
from icestream.errors import InvalidInputError
from icestream.model.config_nodes import BOOLEAN, TEXT, U32, ConfigNode, Rule, joined
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)
from icestream.model.platforms import Platform, StoreOptions, make_store, s3_options
from icestream.model.storage_config import StorageSettings

CHECKSUM_ALGORITHMS: Mapping[str, ChecksumAlgorithm] = {
    "crc32": ChecksumAlgorithm.Crc32,
    "crc32c": ChecksumAlgorithm.Crc32c,
    "crc64_nvme": ChecksumAlgorithm.Crc64Nvme,
    "sha1": ChecksumAlgorithm.Sha1,
    "sha256": ChecksumAlgorithm.Sha256,
}
CHECKSUM_NAMES = {algorithm: name for name, algorithm in CHECKSUM_ALGORITHMS.items()}

_SCALARS: Mapping[str, Rule] = {
    "region": TEXT,
    "endpoint_url": TEXT,
    "anonymous": BOOLEAN,
    "allow_http": BOOLEAN,
    "force_path_style": BOOLEAN,
    "requester_pays": BOOLEAN,
    "network_stream_timeout_seconds": U32,
    "path": TEXT,
}
_MAPPINGS = ("headers", "options")
_CHECKSUM = "checksum_algorithm"
_OPTIONS = (*_SCALARS, *_MAPPINGS, _CHECKSUM)
_PATH = "icestream.containers"

type ReadSettings = Callable[[TreeReader, Any, str], StorageSettings]
type NodeTree = Callable[[ConfigNode], dict[str, Any]]


def fits_icechunk(container: VirtualChunkContainer) -> bool:
    """Tell whether a container is stored in icechunk's own list."""
    if container.is_stored_by_icechunk and container.url_template is None:
        return container.url_prefix.endswith("/")
    return not any(container.icechunk_faults())


def has_own_settings(container: VirtualChunkContainer) -> bool:
    """Tell whether a container has something that icechunk's own list has no place for."""
    return bool(container.settings or container.region_note or container.own_extra)


# -- encoding -------------------------------------------------------------------------------------


def own_container_tree(container: VirtualChunkContainer, node_tree: NodeTree) -> dict[str, Any]:
    """Return what is stored of a container under our key."""
    tree: dict[str, Any] = {"prefix": container.url_prefix}
    if container.region_note is not None:
        tree["region"] = container.region_note
    if container.settings is not None:
        tree["settings"] = node_tree(container.settings)
    if fits_icechunk(container):
        return {**tree, **container.own_extra}
    if container.name is not None:
        tree["name"] = container.name
    tree |= _store_tree(container.store)
    if container.url_template is not None:
        tree["url_template"] = container.url_template
    if container.default_template_arguments is not None:
        tree["default_template_arguments"] = list(container.default_template_arguments)
    return {**tree, **container.store_extra, **container.extra, **container.own_extra}


def _store_tree(store: AnyObjectStoreConfig) -> dict[str, Any]:
    options = s3_options(store)
    if options is not None:
        return {"object_store": _PLATFORM_NAMES[type(store)], **_s3_tree(options)}
    tree: dict[str, Any] = {"object_store": _PLATFORM_NAMES[type(store)]}
    match store:
        case ObjectStoreConfig.LocalFileSystem():
            tree["path"] = store.path
        case ObjectStoreConfig.Gcs() | ObjectStoreConfig.Azure():
            tree |= {"options": dict(store.opts)} if store.opts else {}
        case ObjectStoreConfig.Http():
            tree |= {"options": dict(store.opts)} if store.opts else {}
            tree |= {"headers": dict(store.headers)} if store.headers else {}
        case _:  # the S3 family is above, and nothing is said of a store in memory
            return tree
    return tree


_PLATFORM_NAMES: Mapping[type[AnyObjectStoreConfig], str] = {
    ObjectStoreConfig.InMemory: "in_memory",
    ObjectStoreConfig.LocalFileSystem: Platform.LOCAL_FILE_SYSTEM.value,
    ObjectStoreConfig.S3: Platform.S3.value,
    ObjectStoreConfig.S3Compatible: Platform.S3_COMPATIBLE.value,
    ObjectStoreConfig.Tigris: Platform.TIGRIS.value,
    ObjectStoreConfig.Gcs: Platform.GCS.value,
    ObjectStoreConfig.Azure: Platform.AZURE.value,
    ObjectStoreConfig.Http: Platform.HTTP.value,
}


def _s3_tree(options: S3Options) -> dict[str, Any]:
    plain = S3Options()
    tree = {
        option.name: getattr(options, option.name)
        for option in fields(S3Options)
        if getattr(options, option.name) != getattr(plain, option.name)
    }
    if options.checksum_algorithm is not None:
        tree["checksum_algorithm"] = CHECKSUM_NAMES[options.checksum_algorithm]
    return tree


# -- decoding -------------------------------------------------------------------------------------


def add_own_containers(
    reader: TreeReader,
    tree: Any,
    containers: dict[str, VirtualChunkContainer],
    read_settings: ReadSettings,
) -> list[Any]:
    """Add the containers that are stored under our key to those of icechunk's own list.

    Returns:
        What could not be read, so that it survives: a newer version may have written it.
    """
    unread = []
    keys = {container.url_prefix: key for key, container in containers.items()}
    for i, item in enumerate(reader.items(tree, _PATH)):
        attempt = TreeReader()
        container = _container(attempt, item, f"{_PATH}[{i}]", containers)
        if container is not None:
            _read_settings_into(attempt, container, f"{_PATH}[{i}]", read_settings)
            attempt.faults += container.faults(f"{_PATH}[{i}]")
        if container is None or not all(fault.tolerated for fault in attempt.faults):
            unread.append(item)
        else:
            containers[keys.get(container.key, container.key)] = container
        reader.faults += (replace(fault, tolerated=True) for fault in attempt.faults)
    return unread


def _container(
    reader: TreeReader, item: Any, path: str, containers: Mapping[str, VirtualChunkContainer]
) -> VirtualChunkContainer | None:
    """Return the container of an item, with what is not read yet in `own_extra`."""
    content = dict(reader.mapping(item, path))
    prefix = content.pop("prefix", None)
    if not reader.follows(TEXT, prefix, joined(path, "prefix")):
        return None
    if content.get("object_store") is None:
        present = next((c for c in containers.values() if c.url_prefix == prefix), None)
        if present is None:
            reader.fault(path, f"has no object_store, and {prefix!r} is no other container")
            return None
        container = deepcopy(present)
    else:
        store = _store(reader, content, path)
        if store is None:
            return None
        container = VirtualChunkContainer(prefix, store, content.pop("name", None))
        container.url_template = content.pop("url_template", None)
    container.own_extra = content
    return container


def _read_settings_into(
    reader: TreeReader,
    container: VirtualChunkContainer,
    path: str,
    read_settings: ReadSettings,
) -> None:
    content = container.own_extra
    settings = content.pop("settings", None)
    if settings is not None:
        container.settings = read_settings(reader, settings, joined(path, "settings"))
    arguments = content.pop("default_template_arguments", None)
    if arguments is not None:
        at = joined(path, "default_template_arguments")
        container.default_template_arguments = tuple(reader.items(arguments, at))
    region = content.pop("region", None)
    if s3_options(container.store) is None:
        container.region_note = region


def _store(reader: TreeReader, content: dict[str, Any], path: str) -> AnyObjectStoreConfig | None:
    """Take the store out of the content of a container."""
    name = content.pop("object_store")
    if name not in set(Platform):
        reader.fault(joined(path, "object_store"), f"{name!r} is not one of {', '.join(Platform)}")
        return None
    given = {
        option: _option(reader, option, content[option], joined(path, option))
        for option in _OPTIONS
        if content.get(option) is not None
    }
    for option in given.keys() - {"region"}:
        del content[option]
    if reader.faults:
        return None
    try:
        return make_store(Platform(name), **cast("StoreOptions", given))
    except InvalidInputError as error:
        reader.fault(path, str(error))
        return None


def _option(reader: TreeReader, option: str, value: Any, path: str) -> Any:
    """Return the value of an option, after taking note of its faults."""
    if option in _MAPPINGS:
        return reader.mapping(value, path)
    if option == _CHECKSUM:
        return reader.choice(value, path, CHECKSUM_ALGORITHMS)
    reader.follows(_SCALARS[option], value, path)
    return value
