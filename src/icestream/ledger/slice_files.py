"""Slices on the storage of their dataset: saved, merged, and checked against their blocks."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from icestream.errors import IntegrityError
from icestream.ledger.blocks.events import DataSlice
from icestream.ledger.chain.hashed_objects import load_object, save_object
from icestream.ledger.chain.layout import data_key
from icestream.ledger.chain.object_checks import SliceContext, named_objects
from icestream.ledger.chain.rewriting import SliceMerger
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.data.arrow_schemas import schema_of_event
from icestream.ledger.data.slices import (
    EncodedSlice,
    check_slice_records,
    decode_slice,
    encode_slice,
    read_slice,
)
from icestream.ledger.data.system_columns import SystemColumns
from icestream.storage.protocol import Storage


def save_slice(storage: Storage, encoded: EncodedSlice) -> None:
    """Write the file of a slice; nothing refers to it yet."""
    save_object(storage, data_key(encoded.facts.physical_hash), encoded.data)


def slice_merger(storage: Storage, blocks: Sequence[StoredBlock]) -> SliceMerger:
    """Return what writes the records of consecutive slices as one file.

    It raises an IntegrityError if a file is missing, or its records are not those that its block
    tells of.

    Args:
        storage: At the root of the dataset.
        blocks: The whole chain, oldest first: it tells what columns were called in each slice.
    """
    names = {
        found.key: SystemColumns.of(found.vocabulary)
        for found in named_objects(blocks)
        if found.is_slice
    }

    def merge(slices: Sequence[DataSlice]) -> DataSlice:
        columns = names[data_key(slices[0].physical_hash)]
        tables = [_checked_records(storage, data_slice, columns) for data_slice in slices]
        encoded = encode_slice(pa.concat_tables(tables, promote_options="default"), columns)
        save_slice(storage, encoded)
        return encoded.facts

    return merge


def check_slice_content(data: bytes, context: SliceContext) -> None:
    """Look into a slice: its columns, its offsets and its logical hash.

    Raises:
        IntegrityError: The records are not those that the block tells of.
        FormatError: The schema in force cannot be read.
    """
    schema = context.schema
    check_slice_records(
        decode_slice(data, name=context.key),
        context.facts,
        columns=SystemColumns.of(context.vocabulary),
        schema=None if schema is None else schema_of_event(schema, name="of the schema"),
        name=context.key,
    )


def find_damage(
    storage: Storage, slices: Iterable[DataSlice], columns: SystemColumns
) -> IntegrityError | None:
    """Return what is wrong with the first slice that is not what its block tells; None if none."""
    for facts in slices:
        key = data_key(facts.physical_hash)
        try:
            read_slice(load_object(storage, key), facts, columns=columns, name=key)
        except IntegrityError as error:
            return error
    return None


def _checked_records(storage: Storage, facts: DataSlice, columns: SystemColumns) -> pa.Table:
    key = data_key(facts.physical_hash)
    table = decode_slice(load_object(storage, key), name=key)
    check_slice_records(table, facts, columns=columns, schema=None, name=key)
    return table
