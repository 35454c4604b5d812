"""The check that columns follow the schema of their dataset."""

from collections.abc import Iterator

import pyarrow as pa

from icestream.errors import IntegrityError, InvalidInputError
from icestream.ledger.blocks import data_types as odf
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.data.arrow_schemas import from_arrow_schema, to_arrow_schema
from icestream.ledger.data.type_names import told_apart


def require_schema(found: pa.Schema, expected: DataSchema, *, name: str) -> None:
    """Check that the columns of a slice are those of its dataset.

    Names, order and types must agree; string, binary and list encodings do not matter. A column
    that may be null can be written as one that is never null, but not the reverse.

    Args:
        found: The columns of the slice.
        expected: The schema in force.
        name: Of the slice, for errors.

    Raises:
        IntegrityError: Names the slice, the column and the rule.
    """
    wanted = from_arrow_schema(to_arrow_schema(expected))
    for problem in _differences(from_arrow_schema(found), wanted):
        raise IntegrityError(f"{name}: a slice must follow the schema of its dataset: {problem}")


def _differences(found: DataSchema, wanted: DataSchema) -> Iterator[str]:
    names, wanted_names = ([field.name for field in schema.fields] for schema in (found, wanted))
    missing = [name for name in wanted_names if name not in names]
    unknown = [name for name in names if name not in wanted_names]
    if missing:
        yield f"missing {_listed(missing)}"
    if unknown:
        yield f"unknown {_listed(unknown)}"
    if names != wanted_names:
        yield f"the columns are {', '.join(names)}; wanted are {', '.join(wanted_names)}"
        return
    for field, wanted_field in zip(found.fields, wanted.fields, strict=True):
        yield from _type_differences(field.type, wanted_field.type, field.name)


def _listed(names: list[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(repr(name) for name in names)}"


def _type_differences(found: odf.DataType, wanted: odf.DataType, path: str) -> Iterator[str]:
    if isinstance(found, odf.DataTypeOption) and not isinstance(wanted, odf.DataTypeOption):
        yield f"column {path!r} may be null, and must not be"
        return
    match _inner(found), _inner(wanted):
        case odf.DataTypeStruct(fields=fields), odf.DataTypeStruct(fields=wanted_fields) if [
            field.name for field in fields
        ] == [field.name for field in wanted_fields]:
            for field, wanted_field in zip(fields, wanted_fields, strict=True):
                yield from _type_differences(field.type, wanted_field.type, f"{path}.{field.name}")
        case odf.DataTypeList() as items, odf.DataTypeList() as wanted_items:
            # lengths are an encoding: a file without Arrow's own schema has lost them
            yield from _type_differences(items.item_type, wanted_items.item_type, f"{path}.item")
        case kind, wanted_kind:
            if kind != wanted_kind:
                name, wanted_name = told_apart(kind, wanted_kind)
                yield f"column {path!r} has type {name}, not {wanted_name}"


def _inner(kind: odf.DataType) -> odf.DataType:
    return kind.inner if isinstance(kind, odf.DataTypeOption) else kind


def conformed(table: pa.Table, schema: DataSchema, *, name: str) -> pa.Table:
    """Return a table with the nullability that its dataset demands, and check the rest.

    Args:
        table: Its columns say that they may be null more often than they are.
        schema: The schema in force.
        name: Of the data, for errors.

    Raises:
        InvalidInputError: A column is missing, unknown, of another type, or has nulls although
            it must not.
    """
    wanted = to_arrow_schema(schema)
    fields = [_narrowed(field, wanted, table) for field in table.schema]
    narrowed = table.cast(pa.schema(fields))
    try:
        require_schema(narrowed.schema, schema, name=name)
    except IntegrityError as error:
        raise InvalidInputError(str(error)) from error
    return narrowed


def _narrowed(field: pa.Field, wanted: pa.Schema, table: pa.Table) -> pa.Field:
    index = wanted.get_field_index(field.name)
    if index < 0 or wanted.field(index).nullable or not field.nullable:
        return field
    count = table.column(field.name).null_count
    if count:
        raise InvalidInputError(
            f"column {field.name!r} has {count} nulls, and the schema of the dataset allows none; "
            "fill them, or leave these rows out"
        )
    return field.with_nullable(False)  # noqa: FBT003  the argument has no name in Arrow
