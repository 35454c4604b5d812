"""Rules for SetDataSchema: schemas grow, and old slices stay readable by new ones."""

from collections import Counter
from collections.abc import Iterator

from icestream.errors import FormatError, InvalidInputError
from icestream.ledger.blocks.data_schemas import SchemaChangeKind, schema_change
from icestream.ledger.blocks.data_types import (
    DataField,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from icestream.ledger.blocks.events import SetDataSchema
from icestream.ledger.chain.states import ChainState
from icestream.ledger.data.arrow_schemas import schema_of_event


def schema_is_given(state: ChainState, event: SetDataSchema) -> str | None:
    """The event has a schema, in the logical form or in the legacy one."""
    del state
    if event.schema is None and event.raw_arrow_schema is None:
        return "the event has no schema"
    return None


def column_names_are_unique(state: ChainState, event: SetDataSchema) -> str | None:
    """No two columns have one name, nor two members of a struct."""
    del state
    fields = () if event.schema is None else event.schema.fields
    if name := next(_repeated_names(fields), None):
        return f"two columns are called {name!r}"
    return None


def schema_only_grows(state: ChainState, event: SetDataSchema) -> str | None:
    """A schema differs from the last by optional columns that it adds, or by attributes.

    A legacy schema says little about nulls: that which follows it may differ there.
    """
    previous = state.schema
    if event.schema is None or previous is None:
        return None
    is_legacy = previous.schema is None
    try:
        old = schema_of_event(previous, name="of the schema in force")
    except (FormatError, InvalidInputError) as error:
        return f"the schema in force cannot be read: {error}"
    change = schema_change(old, event.schema, ignores_optionality=is_legacy)
    if change.kind is SchemaChangeKind.IDENTICAL and not is_legacy:
        return "the schema is the one in force already"
    return None if change.is_allowed else "; ".join(change.reasons)


def _repeated_names(fields: tuple[DataField, ...], path: str = "") -> Iterator[str]:
    counts = Counter(field.name for field in fields)
    yield from (f"{path}{name}" for name, count in counts.items() if count > 1)
    for field in fields:
        for members in _structs_in(field.type):
            yield from _repeated_names(members, f"{path}{field.name}.")


def _structs_in(kind: DataType) -> Iterator[tuple[DataField, ...]]:
    """Yield the members of the structs that a type consists of, not those within these."""
    match kind:
        case DataTypeStruct(fields=fields):
            yield fields
        case DataTypeOption(inner=inner):
            yield from _structs_in(inner)
        case DataTypeList(item_type=item):
            yield from _structs_in(item)
        case DataTypeMap(key_type=key, value_type=value):
            yield from _structs_in(key)
            yield from _structs_in(value)
        case _:
            return


RULES = (schema_is_given, column_names_are_unique, schema_only_grows)
