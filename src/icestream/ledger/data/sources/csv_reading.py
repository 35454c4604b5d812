"""Delimited text as rows."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pc

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks.sources import ReadStepCsv
from icestream.ledger.data.sources.text_encodings import as_utf8
from icestream.ledger.data.text_times import parse_times


def read_csv(data: bytes, step: ReadStepCsv, schema: pa.Schema | None) -> pa.Table:
    """Return the rows of delimited text.

    The defaults are a comma, double quotes, a backslash to escape, no header, texts only, and
    nulls for empty values.

    Args:
        data: The text, not empty.
        step: How it is written.
        schema: The columns that are declared. A header that has all of their names decides which
            is which; otherwise columns are taken in order.

    Raises:
        SourceError: The text has another number of columns, or values of another type.
        InvalidInputError: The step contradicts itself.
    """
    data = as_utf8(data, step.encoding)
    names = _column_names(data, step)
    if schema is None:
        kinds = {} if step.infer_schema else dict.fromkeys(names, pa.string())
        return _read(data, step, names, kinds)
    sources = _sources(names, schema.names, has_header=bool(step.header))
    kinds = {
        source: pa.string() if _is_time(field.type) else field.type
        for source, field in zip(sources, schema, strict=True)
    }
    table = _read(data, step, names, kinds).select(list(sources))
    columns = [
        _timed(column, field, step) if _is_time(field.type) else column
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def _column_names(data: bytes, step: ReadStepCsv) -> list[str]:
    """Return the names in the header, or numbered ones."""
    reader = pc.open_csv(
        pa.BufferReader(data),
        read_options=pc.ReadOptions(autogenerate_column_names=not step.header),
        parse_options=_parse_options(step),
    )
    if step.header:
        return list(reader.schema.names)
    return [f"column_{number + 1}" for number in range(len(reader.schema.names))]


def _sources(found: Sequence[str], wanted: Sequence[str], *, has_header: bool) -> Sequence[str]:
    """Return which column of the file each column of the schema is."""
    if has_header and set(wanted) <= set(found):
        return wanted
    if len(found) == len(wanted):
        return found
    raise SourceError(
        f"the file has {len(found)} columns ({', '.join(found)}), and the schema has "
        f"{len(wanted)} ({', '.join(wanted)}); declare as many, or name those of the header"
    )


def _read(
    data: bytes, step: ReadStepCsv, names: Sequence[str], kinds: dict[str, pa.DataType]
) -> pa.Table:
    if len(set(names)) < len(names):
        raise SourceError(f"two columns of the header have one name: {', '.join(names)}")
    options = pc.ReadOptions(
        column_names=list(names),
        skip_rows_after_names=1 if step.header else 0,
    )
    nulls = [step.null_value or ""]
    convert = pc.ConvertOptions(column_types=kinds, null_values=nulls, strings_can_be_null=True)
    return pc.read_csv(
        pa.BufferReader(data),
        read_options=options,
        parse_options=_parse_options(step),
        convert_options=convert,
    )


def _parse_options(step: ReadStepCsv) -> pc.ParseOptions:
    marks = {"separator": step.separator or ",", "quote": step.quote or '"'}
    marks["escape"] = "\\" if step.escape is None else step.escape
    for role, mark in marks.items():
        if len(mark) > 1:
            raise InvalidInputError(f"the {role} {mark!r} must be one character")
    return pc.ParseOptions(
        delimiter=marks["separator"],
        quote_char=marks["quote"],
        escape_char=marks["escape"] or False,
        newlines_in_values=True,
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _timed(texts: pa.ChunkedArray, field: pa.Field, step: ReadStepCsv) -> pa.ChunkedArray:
    is_date = pa.types.is_date(field.type)
    text_format = step.date_format if is_date else step.timestamp_format
    return parse_times(texts, field.type, text_format, column=field.name)
