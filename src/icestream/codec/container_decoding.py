"""From trees of plain values to virtual chunk containers and their stores."""

from dataclasses import fields
from typing import Any

from icestream.codec.config_encoding import S3_VARIANTS, STORE_VARIANTS
from icestream.codec.extension_containers import CHECKSUM_ALGORITHMS
from icestream.codec.tree_reading import TreeReader
from icestream.model.config_nodes import joined
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options


def read_containers(reader: TreeReader, tree: Any, path: str) -> dict[str, VirtualChunkContainer]:
    """Return the containers of a configuration under the keys of the document."""
    found = {
        key: _container(reader, content, joined(path, key))
        for key, content in reader.mapping(tree, path).items()
    }
    return {key: container for key, container in found.items() if container is not None}


def _container(reader: TreeReader, tree: Any, path: str) -> VirtualChunkContainer | None:
    content = reader.fields(tree, path, "url_prefix", "store")
    if content is None:
        return None
    known, extra = content
    store, store_extra = _store(reader, known["store"], joined(path, "store"))
    if store is None:
        return None
    url_prefix = known["url_prefix"]
    if isinstance(url_prefix, str) and not url_prefix.endswith("/"):
        url_prefix += "/"  # icechunk repairs it in the same way
    container = VirtualChunkContainer(url_prefix, store, extra.pop("name", None))
    container.extra, container.store_extra = extra, store_extra
    container.is_stored_by_icechunk = True
    reader.faults.extend(container.icechunk_faults(path))
    return container


def _store(
    reader: TreeReader, tree: Any, path: str
) -> tuple[AnyObjectStoreConfig | None, dict[str, Any]]:
    """Return the store, and those of its options that are unknown here."""
    variant, content = reader.variant(tree, path, STORE_VARIANTS)
    if variant in S3_VARIANTS:
        options, extra = _s3_options(reader, content, path)
        return None if options is None else S3_VARIANTS[variant](options), extra
    return _other_store(reader, variant, content, path), {}


def _other_store(
    reader: TreeReader, variant: str, content: Any, path: str
) -> AnyObjectStoreConfig | None:
    match variant:
        case "in_memory":
            return ObjectStoreConfig.InMemory()
        case "local_file_system":
            return ObjectStoreConfig.LocalFileSystem(content)
        case "gcs":
            return ObjectStoreConfig.Gcs(reader.mapping(content, path) or None)
        case "azure":
            return ObjectStoreConfig.Azure(reader.mapping(content, path) or None)
        case "http":
            options = dict(reader.mapping(content, path))
            headers = reader.mapping(options.pop("headers", {}), joined(path, "headers"))
            return ObjectStoreConfig.Http(options or None, headers or None)
        case _:
            return None


def _s3_options(
    reader: TreeReader, tree: Any, path: str
) -> tuple[S3Options | None, dict[str, Any]]:
    content = reader.fields(tree, path, "anonymous", "allow_http")
    if content is None:
        return None, {}
    known, extra = content
    for option in fields(S3Options):
        value = extra.pop(option.name, None)
        if value is not None:
            known[option.name] = value
    algorithm = known.pop("checksum_algorithm", None)
    if algorithm is not None:
        at = joined(path, "checksum_algorithm")
        known["checksum_algorithm"] = reader.choice(algorithm, at, CHECKSUM_ALGORITHMS)
    return S3Options(**known), extra
