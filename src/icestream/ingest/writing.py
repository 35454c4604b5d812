"""The arrays of a placement, written to a session: the only effect on the way from files."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from icestream.ingest.materialising import materialise
from icestream.ingest.placement.copied_arrays import CopiedArray, chunks_of
from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.ingest.references import file_at, reference_tables
from icestream.model.chunk_tables import ChunkTable, concat, replace_columns
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
        InvalidInputError: A file that has a place was not given, or no container covers one.
        SourceError: A file of another form cannot be copied.
    """
    by_url = {file.url: file for file in files}
    copy = session._copy  # noqa: SLF001  sessions offer single references, and no tables
    _write_groups(copy, placement, absolute(group))
    tables = reference_tables(placement, by_url.values(), group=group)
    for section in placement.sections:
        for path, virtual in section.virtual.items():
            target = section.target(path, group)
            copy.put_metadata(target, _document(virtual.metadata))
            copies = _copies(copy, virtual, placement.urls, by_url)
            table = concat([tables.pop(target), *copies])
            _put_references(copy, target, table, validate=validate_containers)
        for path, copied in section.copied.items():
            _write_copied(copy, section.target(path, group), copied)


def _copies(
    copy: WorkingCopy, array: VirtualArray, urls: Sequence[str], files: Mapping[str, ScannedFile]
) -> Iterator[ChunkTable]:
    """Copy the files of another form, and yield references to the copies."""
    if array.differing is None or array.differing_start is None:
        return
    for row, start in zip(array.differing.tolist(), array.differing_start.tolist(), strict=True):
        yield materialise(
            file_at(urls[row], array.path, files),
            array.path,
            array.metadata,
            start,
            save_chunk=copy.write,
            read_chunk=copy.context.reader.read,
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
