"""YAML and JSON forms of blocks, events and dataset snapshots, as manifests.

>>> from icestream.ledger.blocks.events import SetInfo
>>> print(write_document(SetInfo(keywords=("ice",))).decode(), end="")
kind: MetadataEvent
version: 1
content:
  kind: SetInfo
  keywords:
  - ice
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icestream.codec.yaml_documents import dump_yaml, load_yaml_stream
from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.ledger.blocks.decoding import READABLE_VERSIONS
from icestream.ledger.blocks.encoding import CURRENT_VERSION
from icestream.ledger.blocks.events import DatasetKind, MetadataBlock, MetadataEvent
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.shapes import OneOf, Record, union_of
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.blocks.trees import fail, tree_of, value_of

type Document = MetadataBlock | MetadataEvent | DatasetSnapshot
"""What a manifest can hold."""


class DocumentForm(StrEnum):
    """How a document is written."""

    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """A dataset snapshot as it is written."""

    name: str
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class _ManifestKind:
    """What a kind of manifest holds."""

    wire: Record | OneOf
    version: int
    readable_versions: frozenset[int]


_BLOCK, _EVENT, _SNAPSHOT = "MetadataBlock", "MetadataEvent", "DatasetSnapshot"
_MANIFESTS = {
    _BLOCK: _ManifestKind(Record(MetadataBlock), CURRENT_VERSION, READABLE_VERSIONS),
    _EVENT: _ManifestKind(union_of(MetadataEvent), 1, frozenset({1})),
    _SNAPSHOT: _ManifestKind(Record(_Snapshot), 1, frozenset({1})),
}


# -- reading --------------------------------------------------------------------------------------


def read_documents(
    data: bytes, *, name: str = "document", form: DocumentForm = DocumentForm.YAML
) -> tuple[Document, ...]:
    """Return what the manifests of a file hold; JSON has one, YAML any number.

    Args:
        data: The bytes of the file.
        name: What to call it in errors.
        form: How it is written.

    Raises:
        InvalidInputError: A document is malformed; the message names the place.
    """
    trees = _load_trees(data, name, form)
    names = [name] if len(trees) == 1 else [f"{name}#{i + 1}" for i in range(len(trees))]
    return tuple(_read_manifest(tree, place) for tree, place in zip(trees, names, strict=True))


def read_snapshots(
    data: bytes, *, name: str = "document", form: DocumentForm = DocumentForm.YAML
) -> tuple[DatasetSnapshot, ...]:
    """Return the dataset snapshots of a file.

    Raises:
        InvalidInputError: A document is malformed, or no dataset snapshot.
    """
    documents = read_documents(data, name=name, form=form)
    snapshots = tuple(found for found in documents if isinstance(found, DatasetSnapshot))
    if len(snapshots) != len(documents):
        fail(name, f"every document must be of kind {_SNAPSHOT}")
    return snapshots


def event_from_tree(tree: Any, *, name: str = "event") -> MetadataEvent:
    """Return the event of a tree of plain JSON types.

    Raises:
        InvalidInputError: The tree is no event; the message names the place.
    """
    event: MetadataEvent = value_of(union_of(MetadataEvent), tree, name)
    return event


def block_from_tree(tree: Any, *, name: str = "block") -> MetadataBlock:
    """Return the block of a tree of plain JSON types.

    Raises:
        InvalidInputError: The tree is no block; the message names the place.
    """
    block: MetadataBlock = value_of(Record(MetadataBlock), tree, name)
    return block


def _load_trees(data: bytes, name: str, form: DocumentForm) -> list[Any]:
    try:
        if form is DocumentForm.YAML:
            return load_yaml_stream(data, name=name)
        return [json.loads(data.decode(), object_pairs_hook=_unique_keys)]
    except (FormatError, ValueError, RecursionError) as error:
        message = str(error) if isinstance(error, FormatError) else f"{name}: no JSON: {error}"
        raise InvalidInputError(message, kind=ErrorKind.BAD_METADATA) from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key is there twice among {', '.join(keys)}")
    return dict(pairs)


def _read_manifest(tree: Any, name: str) -> Document:
    if not isinstance(tree, dict) or set(tree) != {"kind", "version", "content"}:
        fail(name, "a manifest is a mapping of kind, version and content, and nothing else")
    manifest = _MANIFESTS.get(tree["kind"]) if isinstance(tree["kind"], str) else None
    if manifest is None:
        fail(f"{name}.kind", f"{tree['kind']!r} is none of {', '.join(_MANIFESTS)}")
    version = tree["version"]
    if not isinstance(version, int) or version not in manifest.readable_versions:
        fail(f"{name}.version", f"{version!r} of {tree['kind']} cannot be read")
    content = value_of(manifest.wire, tree["content"], name)
    return _to_snapshot(content, name) if isinstance(content, _Snapshot) else content


def _to_snapshot(content: _Snapshot, name: str) -> DatasetSnapshot:
    try:
        alias = DatasetAlias.parse(content.name)
    except InvalidInputError as error:
        fail(f"{name}.name", str(error), error)
    return DatasetSnapshot(name=alias, kind=content.kind, metadata=content.metadata)


# -- writing --------------------------------------------------------------------------------------


def write_document(document: Document, *, form: DocumentForm = DocumentForm.YAML) -> bytes:
    """Return the manifest of a block, event or snapshot, in today's names."""
    tree = document_tree(document)
    if form is DocumentForm.YAML:
        return dump_yaml(tree)
    return (json.dumps(tree, ensure_ascii=False, indent=2) + "\n").encode()


def document_tree(document: Document) -> dict[str, Any]:
    """Return the manifest of a block, event or snapshot as a tree of plain JSON types."""
    content: Any = document
    match document:
        case MetadataBlock():
            kind = _BLOCK
        case DatasetSnapshot(name=name, kind=dataset_kind, metadata=metadata):
            kind = _SNAPSHOT
            content = _Snapshot(name=str(name), kind=dataset_kind, metadata=metadata)
        case _:
            kind = _EVENT
    manifest = _MANIFESTS[kind]
    tree = tree_of(manifest.wire, content)
    return {"kind": kind, "version": manifest.version, "content": tree}


def event_tree(event: MetadataEvent) -> dict[str, Any]:
    """Return an event as a tree of plain JSON types."""
    tree: dict[str, Any] = tree_of(union_of(MetadataEvent), event)
    return tree


def block_tree(block: MetadataBlock) -> dict[str, Any]:
    """Return a block as a tree of plain JSON types."""
    tree: dict[str, Any] = tree_of(Record(MetadataBlock), block)
    return tree
