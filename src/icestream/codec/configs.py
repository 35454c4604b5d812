"""Stored configurations: the YAML object `config.yaml` of spec 1, a FlexBuffer in `repo` of spec 2.

Storage settings are never saved. Keys that this version does not know are kept.
"""

import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from icestream.codec.config_decoding import config_of_tree
from icestream.codec.config_encoding import (
    EXTENSION_KEY,
    config_tree,
    extension_tree,
    shown_tree,
)
from icestream.codec.flexbuffers import decode_flex, encode_flex
from icestream.codec.yaml_documents import MAX_DEPTH, Tagged, dump_yaml, load_yaml
from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.model.config import RepositoryConfig, raise_faults


def encode_config_flex(config: RepositoryConfig) -> bytes:
    """Return the FlexBuffer of a configuration.

    Raises:
        InvalidInputError: icechunk could not open a repository with this configuration.
    """
    return encode_flex(_plain(_checked_tree(config), tagged=False))


def decode_config_flex(data: bytes | memoryview, *, name: str) -> RepositoryConfig:
    """Return the configuration in a FlexBuffer.

    Raises:
        FormatError: The bytes hold no valid configuration; every fault is named.
    """
    return _config(decode_flex(data, name=name, kind=ErrorKind.CONFIG_DESERIALIZATION), name)


def encode_config_yaml(config: RepositoryConfig) -> bytes:
    """Return the YAML document of a configuration.

    Raises:
        InvalidInputError: icechunk could not open a repository with this configuration.
    """
    return dump_yaml(_plain(_checked_tree(config), tagged=True))


def decode_config_yaml(data: bytes | memoryview, *, name: str) -> RepositoryConfig:
    """Return the configuration in a YAML document.

    Raises:
        FormatError: The bytes hold no valid configuration; every fault is named.
    """
    return _config(load_yaml(bytes(data), name=name), name)


def show_config(config: RepositoryConfig) -> tuple[str, Any]:
    """Return a configuration for people: a YAML document, and the same as plain values.

    Both have the manifest sets at their top, and are read like the stored forms.

    Raises:
        InvalidInputError: icechunk could not open a repository with this configuration.
    """
    _check(config)
    tree = shown_tree(config)
    return dump_yaml(_plain(tree, tagged=True)).decode(), _plain(tree, tagged=False)


def encode_extension(config: RepositoryConfig) -> dict[str, Any] | None:
    """Return what icechunk drops when it saves a configuration, as plain values; None if nothing.

    Raises:
        InvalidInputError: icechunk could not open a repository with this configuration.
    """
    _check(config)
    tree = extension_tree(config)
    return None if tree is None else _plain(tree, tagged=False)


def with_extension(
    config: RepositoryConfig, extension: Mapping[str, Any], *, name: str
) -> RepositoryConfig:
    """Return a configuration with what `encode_extension` had returned, in place of its own.

    Raises:
        FormatError: The values are no such thing.
    """
    tree = {**_plain(config_tree(config), tagged=False), EXTENSION_KEY: dict(extension)}
    restored = _config(tree, name)
    restored.storage = deepcopy(config.storage)
    return restored


def _checked_tree(config: RepositoryConfig) -> dict[str, Any]:
    _check(config)
    return config_tree(config)


def _check(config: RepositoryConfig) -> None:
    raise_faults([fault for fault in config.faults() if not fault.tolerated])


def _config(tree: Any, name: str) -> RepositoryConfig:
    config, faults = config_of_tree(tree)
    fatal = [str(fault) for fault in faults if not fault.tolerated]
    if fatal:
        raise FormatError(
            f"{name}: invalid configuration: {'; '.join(fatal)}",
            kind=ErrorKind.CONFIG_DESERIALIZATION,
        )
    if faults:
        message = f"{name}: the configuration has faults: {'; '.join(map(str, faults))}"
        warnings.warn(message, UserWarning, stacklevel=3)
    return config


def _plain(tree: Any, *, tagged: bool, depth: int = 0) -> Any:
    """Return a copy made of dicts, lists and scalars, with variants tagged or as maps."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(
            f"the configuration nests deeper than {MAX_DEPTH} levels; flatten it",
            kind=ErrorKind.INVALID_CONFIG,
        )
    match tree:
        case Tagged():
            value = _plain(tree.value, tagged=tagged, depth=depth + 1)
            return Tagged(tree.tag, value) if tagged else {tree.tag: value}
        case Mapping():
            return {
                str(key): _plain(value, tagged=tagged, depth=depth + 1)
                for key, value in tree.items()
            }
        case list() | tuple():
            return [_plain(value, tagged=tagged, depth=depth + 1) for value in tree]
        case None | bool() | int() | float() | str():
            return tree
        case _:
            raise InvalidInputError(
                f"a {type(tree).__name__} cannot be part of a configuration; use None, bool, int, "
                "float, str, lists and dicts",
                kind=ErrorKind.INVALID_CONFIG,
            )
