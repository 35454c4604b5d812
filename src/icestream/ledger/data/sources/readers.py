"""Reading: the bytes of a file as rows, the way a source declares it."""

import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from icestream.ledger.data.arrow_schemas import to_arrow_schema
from icestream.ledger.data.sources.csv_reading import read_csv
from icestream.ledger.data.sources.ddl_schemas import parse_ddl
from icestream.ledger.data.sources.text_encodings import as_utf8
from icestream.ledger.data.text_times import parse_times

_SUPPORTED = "Csv, Json, NdJson and Parquet"


def declared_schema(step: ReadStep) -> DataSchema | None:
    """Return the schema that a step declares, in either form; None if it declares none.

    Raises:
        InvalidInputError: It declares two.
    """
    if step.schema is not None and step.ddl_schema is not None:
        raise InvalidInputError("a read step has both schema and ddlSchema; leave one of them out")
    return parse_ddl(step.ddl_schema) if step.ddl_schema is not None else step.schema


def read_rows(data: bytes, step: ReadStep, *, name: str = "the input") -> pa.Table | None:
    """Return the rows of a file.

    Args:
        data: The file; may be empty.
        step: Its format.
        name: Of the file, for errors.

    Returns:
        The rows. For an empty file that is a table without rows if the step has a schema, and
        None if it has none: then nothing is known about the columns.

    Raises:
        SourceError: The bytes do not follow the format or the schema.
        InvalidInputError: The step is not supported or contradicts itself.
    """
    schema = declared_schema(step)
    arrow_schema = None if schema is None else to_arrow_schema(schema)
    if not data.strip():
        return None if arrow_schema is None else arrow_schema.empty_table()
    try:
        return _read(data, step, arrow_schema)
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidInputError | SourceError):
            raise
        kind = type(step).__name__.removeprefix("ReadStep")
        raise SourceError(f"{name} cannot be read as {kind}: {error}") from error


def _read(data: bytes, step: ReadStep, schema: pa.Schema | None) -> pa.Table:
    match step:
        case ReadStepCsv():
            return read_csv(data, step, schema)
        case ReadStepNdJson():
            return _read_lines(as_utf8(data, step.encoding), step, schema)
        case ReadStepJson():
            return _read_json(data, step, schema)
        case ReadStepParquet():
            return _read_parquet(data, schema)
        case _:
            kind = type(step).__name__.removeprefix("ReadStep")
            raise InvalidInputError(
                f"files of the kind {kind} are not supported, only {_SUPPORTED}"
            )


# JSON


def _read_json(data: bytes, step: ReadStepJson, schema: pa.Schema | None) -> pa.Table:
    """Return the objects of an array as rows, through the one reader of lines."""
    found = json.loads(as_utf8(data, step.encoding))
    for part in (step.sub_path or "").split("."):
        if part:
            found = _member(found, part, step.sub_path or "")
    rows = found if isinstance(found, list) else [found]
    if not all(isinstance(row, Mapping) for row in rows):
        raise SourceError("rows must be JSON objects; `subPath` names the array that holds them")
    if not rows:
        return (schema or pa.schema([])).empty_table()
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return _read_lines(lines.encode(), step, schema)


def _member(value: Any, name: str, path: str) -> Any:
    if not isinstance(value, Mapping) or name not in value:
        raise SourceError(f"there is no {name!r} in the document, so {path!r} leads nowhere")
    return value[name]


def _read_lines(
    data: bytes, step: ReadStepJson | ReadStepNdJson, schema: pa.Schema | None
) -> pa.Table:
    if schema is None:
        return _read_undeclared(data)
    raw = pa.schema([_as_text(field) for field in schema])
    options = pj.ParseOptions(explicit_schema=raw, unexpected_field_behavior="ignore")
    table = pj.read_json(io.BytesIO(data), _whole(data), options).select(raw.names)
    columns = [
        _timed(table.column(field.name), field, step) if _is_time(field.type) else column
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def _read_undeclared(data: bytes) -> pa.Table:
    """Infer the columns; texts stay texts, even where all of them look like times."""
    inferred = pj.read_json(io.BytesIO(data), _whole(data)).schema
    plain = pa.schema([pa.field(field.name, _without_times(field.type)) for field in inferred])
    return pj.read_json(io.BytesIO(data), _whole(data), pj.ParseOptions(explicit_schema=plain))


def _whole(data: bytes) -> pj.ReadOptions:
    # one block: types are inferred from all rows, and an object may be as long as it likes
    return pj.ReadOptions(block_size=len(data) + 1)


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(item.name, _without_times(item.type)) for item in kind.fields])
    return pa.list_(_without_times(kind.value_type)) if pa.types.is_list(kind) else kind


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _as_text(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.string() if _is_time(field.type) else field.type)


def _timed(
    texts: pa.ChunkedArray, field: pa.Field, step: ReadStepJson | ReadStepNdJson
) -> pa.ChunkedArray:
    is_date = pa.types.is_date(field.type)
    text_format = step.date_format if is_date else step.timestamp_format
    return parse_times(texts, field.type, text_format, column=field.name)


# Parquet


def _read_parquet(data: bytes, schema: pa.Schema | None) -> pa.Table:
    table = pq.read_table(pa.BufferReader(data))
    if schema is None:
        return table
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise SourceError(
            f"the file has no {', '.join(missing)}; its columns are {', '.join(table.column_names)}"
        )
    return table.select(schema.names).cast(schema)
