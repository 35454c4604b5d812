"""The arrays of a placement, written to a session: the only effect on the way from files."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.placement.copied_arrays import CopiedArray, chunks_of
from icestream.ingest.placement.placing import Placement
from icestream.ingest.references import reference_tables
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.paths import ROOT, absolute, ancestors_of
from icestream.parsers.scanned_files import ScannedFile
from icestream.repository.session import Session
from icestream.repository.working_copy import WorkingCopy


def write_placement(
    session: Session,
    placement: Placement,
    files: Iterable[ScannedFile],
    *,
    group: str = ROOT,
    validate_containers: bool = True,
) -> None:
    """Write all arrays that files make together; commit the session to make them a version.

    Raises:
        InvalidInputError: A file that has a place was not given, no container covers one, or one
            would have to be copied.
    """
    _refuse_unfinished(placement)
    copy = session._copy  # noqa: SLF001  sessions offer single references, and no tables
    _write_groups(copy, placement, absolute(group))
    tables = reference_tables(placement, files, group=group)
    for section in placement.sections:
        for path, virtual in section.virtual.items():
            target = section.target(path, group)
            copy.put_metadata(target, _document(virtual.metadata))
            _put_references(copy, target, tables.pop(target), validate=validate_containers)
        for path, copied in section.copied.items():
            _write_copied(copy, section.target(path, group), copied)


def _refuse_unfinished(placement: Placement) -> None:
    """Refuse what would read as fill values where files have values."""
    for section in placement.sections:
        for path, array in section.virtual.items():
            if array.differing is not None and len(array.differing):
                url = placement.urls[array.differing[0]]
                raise InvalidInputError(
                    f"{len(array.differing)} files such as {url} have another form of {path}, and "
                    "copying them is not possible yet; declare on-mismatch: era or set-aside",
                    kind=ErrorKind.UNIMPLEMENTED,
                )


def _write_groups(copy: WorkingCopy, placement: Placement, group: str) -> None:
    attributes: dict[str, Mapping[str, Any]] = {}
    for section in placement.sections:
        for path, found in placement.groups.items():
            attributes[section.target(path, group)] = found
        for path in (*section.virtual, *section.copied):
            for above in ancestors_of(section.target(path, group)):
                attributes.setdefault(above, {})
    for path in sorted(attributes):
        if copy.nodes.find(path) is None or attributes[path]:
            content = {"zarr_format": 3, "node_type": "group", "attributes": attributes[path]}
            copy.put_metadata(path, _document(content))


def _put_references(copy: WorkingCopy, path: str, table: ChunkTable, *, validate: bool) -> None:
    """Let an array hold these references and no others."""
    before = copy.table(copy.get_array(path)).index
    stale = before[table.find_many(before) < 0]
    if len(stale):
        copy.delete_chunks(path, stale)
    if not len(table):
        return
    if len(table.locations):
        stored = copy.stored_locations(table.locations, relative=None, validate=validate)
        table = replace_columns(table, locations=stored)
    copy.put_table(path, table)


def _write_copied(copy: WorkingCopy, path: str, array: CopiedArray) -> None:
    copy.put_metadata(path, _document(array.metadata))
    for index, data in chunks_of(array):
        copy.put_ref(path, index, copy.write(data))


def _document(metadata: Mapping[str, Any]) -> bytes:
    return json.dumps(metadata, indent=2).encode()
