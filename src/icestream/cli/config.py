"""`icestream config`: the stored configuration, as YAML."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.results import Document, Done, Result
from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.model.config_nodes import ConfigNode, joined, rules
from icestream.model.manifest_sets import ROOT as CHUNK_MANIFESTS_KEY

if TYPE_CHECKING:
    from icestream.model.config import RepositoryConfig

app = new_group("Show and change the stored configuration.")


@command(app, "show")
def show(target: Target) -> Result:
    """Show what is stored; settings that are absent have their defaults."""
    from icestream.codec.configs import show_config  # noqa: PLC0415  loads numpy

    return Document(*show_config(target.open().config))


@command(app, "set")
def set_value(
    target: Target,
    key: Annotated[str, typer.Argument(help="Name of a setting, such as compression.level.")],
    value: Annotated[str, typer.Argument(help="The value, as YAML.")],
) -> Result:
    """Set one value, and leave the others as they are."""
    *parents, name = key.split(".")
    if parents and parents[0] == CHUNK_MANIFESTS_KEY:
        raise InvalidInputError(
            f"{CHUNK_MANIFESTS_KEY} is set as a whole: use `icestream config load` with a file",
            kind=ErrorKind.INVALID_CONFIG,
        )
    lines = [f"{'  ' * depth}{parent}:" for depth, parent in enumerate(parents)]
    lines.append(f"{'  ' * len(parents)}{name}: {value}")
    _save(target, "\n".join(lines), f"{key}: {value}")
    return Done(f"set {key}", {"key": key, "value": value})


@command(app, "load")
def load(
    target: Target,
    file: Annotated[typer.FileText, typer.Argument(help="YAML file; - is standard input.")],
) -> Result:
    """Set all that a YAML file sets, and leave the rest as it is."""
    _save(target, file.read(), file.name)
    return Done(f"stored the settings of {file.name}", {"file": file.name})


def _save(target: Target, document: str, name: str) -> None:
    from icestream.repository.repository import Repository  # noqa: PLC0415  loads zarr

    Repository.open(target.storage(), config=_parsed(document, name)).save_config()


def _parsed(document: str, name: str) -> "RepositoryConfig":
    from icestream.codec.configs import decode_config_yaml  # noqa: PLC0415  loads numpy

    try:
        config = decode_config_yaml(document.encode(), name=name)
    except FormatError as error:
        # what was typed is at fault, not what is stored
        raise InvalidInputError(str(error), kind=ErrorKind.INVALID_CONFIG) from error
    _check_keys(config)
    return config


def _check_keys(config: "RepositoryConfig") -> None:
    """Refuse keys that would be stored and mean nothing, or would not be stored at all."""
    unknown = list(_unknown_keys(config))
    if unknown:
        raise InvalidInputError(
            f"there is no setting {', '.join(unknown)}", kind=ErrorKind.INVALID_CONFIG
        )
    if config.storage is not None:
        raise InvalidInputError(
            "storage settings are not part of the stored configuration; "
            "give them to Repository.open",
            kind=ErrorKind.INVALID_CONFIG,
        )


def _unknown_keys(node: ConfigNode, path: str = "") -> Iterator[str]:
    yield from (joined(path, key) for key in node.extra)
    for name in rules(type(node)):
        part = getattr(node, name)
        if isinstance(part, ConfigNode):
            yield from _unknown_keys(part, joined(path, name))
