"""The columns that queries put out, judged before they run: whether a dataset can have them."""

from collections.abc import Iterator, Sequence

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    GeographyType,
    GeometryType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ledger.data.system_columns import SystemColumns

_TIMES = (TimestampType, TimestampNTZType, DateType)
_PACKED: tuple[tuple[type[DataType], str], ...] = (
    (VariantType, "cast({} as string), or to the type that its values have"),
    (GeometryType, "st_asbinary({})"),
    (GeographyType, "st_asbinary({})"),
)
"""Types that Spark hands out as structs of bytes which only Spark can read, and what to write."""


def require_storable(schema: StructType, columns: SystemColumns, *, name: str) -> None:
    """Refuse columns that a dataset could not have, or that no query could read from it.

    Args:
        schema: Of the output.
        columns: What the system columns of the dataset are called.
        name: Of the step that is the output, for errors.

    Raises:
        InvalidInputError: Names the step, the columns and the way out.
    """
    for problem in _problems(schema, columns):
        raise InvalidInputError(f"{name} {problem}", kind=ErrorKind.INVALID_ARGUMENT)


def _problems(schema: StructType, columns: SystemColumns) -> Iterator[str]:
    yield from _name_problems(schema.names, columns)
    if columns.event_time in schema.names:
        kind = schema[columns.event_time].dataType
        if not isinstance(kind, _TIMES):
            yield (
                f"puts out {columns.event_time} with the type {_sql(kind)}: make a time of it,"
                " `cast(... as timestamp)`"
            )
    for field in schema.fields:
        for kind, remedy in _packed(field.dataType):
            yield (
                f"puts out the column {field.name} with the type {_sql(kind)},"
                f" which datasets do not have: write {remedy.format(field.name)}"
            )


def _name_problems(names: Sequence[str], columns: SystemColumns) -> Iterator[str]:
    reserved = [name for name in (columns.offset, columns.system_time) if name in names]
    if reserved:
        yield (
            f"puts out the system columns {', '.join(reserved)}, which each record is given anew:"
            " let the last step select the columns that the dataset is to have, by name or with"
            f" `select * except ({', '.join(reserved)})`"
        )
    for name in names:
        if names.count(name) > 1:
            yield f"puts out two columns {name}: give one of them another name (`... as name`)"
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys([*columns.names, *names]):
        alike.setdefault(name.lower(), []).append(name)
    for group in alike.values():
        if len(group) > 1:
            is_system = f" ({group[0]} is a system column)" if group[0] in columns.names else ""
            yield (
                f"puts out columns that only case tells apart: {', '.join(group)}{is_system}; no"
                f" query could select them, so give {group[-1]} another name (`... as name`)"
            )


def _sql(kind: DataType) -> str:
    return kind.simpleString().upper()


def _packed(kind: DataType) -> Iterator[tuple[DataType, str]]:
    """Yield the types in a type that cannot be stored, with remedies."""
    yield from ((kind, remedy) for packed, remedy in _PACKED if isinstance(kind, packed))
    for part in _parts(kind):
        yield from _packed(part)


def _parts(kind: DataType) -> list[DataType]:
    match kind:
        case StructType(fields=fields):
            return [field.dataType for field in fields]
        case ArrayType(elementType=item):
            return [item]
        case MapType(keyType=key, valueType=value):
            return [key, value]
        case _:
            return []
