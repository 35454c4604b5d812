"""Groups, documents and copied arrays: edits of the session, whatever the size of the archive."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from icestream.errors import ConflictError, ErrorKind, InvalidInputError
from icestream.ingest.updates.array_updates import ArrayUpdate
from icestream.ingest.updates.copied_updates import CopiedUpdate
from icestream.ingest.updates.metadata_changes import are_same
from icestream.ingest.updates.planning import Updates
from icestream.model.nodes import ArrayNode, Node
from icestream.repository.working_copy import WorkingCopy


def check_arrays(copy: WorkingCopy, updates: Updates) -> None:
    """Refuse to touch what this archive has not written, and to go on without what it has.

    Raises:
        InvalidInputError: There is an array of somebody else.
        ConflictError: An array of earlier runs is gone.
    """
    doomed = {*updates.deleted_arrays}
    for path, is_new in _touched(updates):
        node = copy.nodes.find(path)
        if node is not None and is_new and path not in doomed:
            raise InvalidInputError(
                f"there is {path} already, and not from this archive; declare another group of "
                "the target, or delete it",
                kind=ErrorKind.NODE_ALREADY_EXISTS,
            )
        if not is_new and not isinstance(node, ArrayNode):
            raise ConflictError(
                f"{path}, which earlier runs have written, is gone from the branch; reset the "
                "branch to a version that has it",
                kind=ErrorKind.COMMIT_CONFLICT,
            )


def _touched(updates: Updates) -> Iterator[tuple[str, bool]]:
    yield from ((path, update.is_new) for path, update in updates.arrays.items())
    yield from ((path, update.is_new) for path, update in updates.copied.items())


def delete_nodes(copy: WorkingCopy, updates: Updates) -> None:
    """Delete what is no more; a group in which somebody else has something stays."""
    for path in updates.deleted_arrays:
        if copy.nodes.find(path) is not None:
            copy.delete_node(path)
    for path in updates.deleted_groups:
        if copy.nodes.find(path) is not None and not copy.nodes.paths_below(path):
            copy.delete_node(path)


def write_groups(copy: WorkingCopy, updates: Updates) -> None:
    """Write the documents of groups."""
    for path in updates.needed_groups:
        if copy.nodes.find(path) is None:
            copy.put_metadata(path, document_of(_group({})))
    for path, attributes in updates.groups.items():
        there = _attributes(copy.nodes.find(path))  # others may have added some
        revised = _revised(there, updates.old_groups.get(path, {}), attributes)
        copy.put_metadata(path, document_of(_group(revised)))


def write_copied(copy: WorkingCopy, updates: Updates) -> None:
    """Write the chunks of copied arrays that changed."""
    for path, update in updates.copied.items():
        write_array_document(copy, path, update)
        for index, data in update.chunks():
            copy.put_ref(path, index, copy.write(data))


def write_array_document(copy: WorkingCopy, path: str, update: ArrayUpdate | CopiedUpdate) -> None:
    """Write the document of an array, if it changes."""
    if update.metadata is not None:
        copy.put_metadata(path, revised_document(copy.nodes.find(path), update))


def revised_document(node: Node | None, update: ArrayUpdate | CopiedUpdate) -> bytes:
    """Return the document of an array as it is to be; what others have edited in it stays."""
    if node is None or update.old_metadata is None:
        return document_of(update.array.metadata)
    if update.metadata is None:
        return node.user_data
    document = json.loads(node.user_data)
    attributes = _revised(
        document.get("attributes", {}),
        update.old_metadata.get("attributes", {}),
        update.metadata.get("attributes", {}),
    )
    return document_of(
        _revised(document, update.old_metadata, update.metadata) | {"attributes": attributes}
    )


def _revised(
    there: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what is there, with the difference of two states applied to it."""
    kept = {key: value for key, value in there.items() if key not in old or key in new}
    return kept | {key: value for key, value in new.items() if not are_same(old.get(key), value)}


def document_of(metadata: Mapping[str, Any]) -> bytes:
    """Return the bytes of a zarr.json."""
    return json.dumps(metadata, indent=2).encode()


def _attributes(node: Node | None) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = {}
    if node is not None:
        attributes = json.loads(node.user_data).get("attributes", {})
    return attributes


def _group(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}
