"""Columns declared in SQL's data definition language, such as `population BIGINT NOT NULL`.

>>> parse_ddl(["city STRING NOT NULL"]).fields
(DataField(name='city', type=DataTypeString(), extra=None),)
"""

import re
from collections.abc import Iterable

from icestream.errors import InvalidInputError
from icestream.ledger.blocks import data_types as odf
from icestream.ledger.blocks.data_schemas import DataSchema

_TYPES: dict[str, odf.DataType] = {
    "BOOLEAN": odf.DataTypeBool(),
    "BOOL": odf.DataTypeBool(),
    "TINYINT": odf.DataTypeInt8(),
    "SMALLINT": odf.DataTypeInt16(),
    "INT": odf.DataTypeInt32(),
    "INTEGER": odf.DataTypeInt32(),
    "BIGINT": odf.DataTypeInt64(),
    "TINYINT UNSIGNED": odf.DataTypeUInt8(),
    "SMALLINT UNSIGNED": odf.DataTypeUInt16(),
    "INT UNSIGNED": odf.DataTypeUInt32(),
    "INTEGER UNSIGNED": odf.DataTypeUInt32(),
    "BIGINT UNSIGNED": odf.DataTypeUInt64(),
    "REAL": odf.DataTypeFloat32(),
    "FLOAT": odf.DataTypeFloat32(),
    "DOUBLE": odf.DataTypeFloat64(),
    "DOUBLE PRECISION": odf.DataTypeFloat64(),
    "STRING": odf.DataTypeString(),
    "TEXT": odf.DataTypeString(),
    "VARCHAR": odf.DataTypeString(),
    "CHAR": odf.DataTypeString(),
    "BINARY": odf.DataTypeBinary(),
    "BYTEA": odf.DataTypeBinary(),
    "DATE": odf.DataTypeDate(),
    "TIMESTAMP": odf.DataTypeTimestamp(),
    "TIMESTAMP WITH TIME ZONE": odf.DataTypeTimestamp(),
    "TIMESTAMPTZ": odf.DataTypeTimestamp(),
}
_COLUMN = re.compile(r"""\s*(?:"([^"]+)"|`([^`]+)`|(\w+))\s+(.+?)\s*""", re.DOTALL)
_NOT_NULL = re.compile(r"\s+NOT\s+NULL$", re.IGNORECASE)
_LENGTH = re.compile(r"\s*\(\s*\d+\s*\)")
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_ARRAY = re.compile(r"ARRAY\s*<(.+)>", re.DOTALL)


def parse_ddl(columns: Iterable[str]) -> DataSchema:
    """Return the schema of declared columns; those that are not `NOT NULL` may be null.

    Raises:
        InvalidInputError: A declaration has another form, or a type that is not known.
    """
    return DataSchema(fields=tuple(_parse_column(column) for column in columns))


def _parse_column(text: str) -> odf.DataField:
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"{text!r} is no column such as 'population BIGINT NOT NULL'")
    *names, kind = match.groups()
    name = next(name for name in names if name)
    is_required = _NOT_NULL.search(kind) is not None
    found = _parse_type(_NOT_NULL.sub("", kind), text)
    return odf.DataField(name=name, type=found if is_required else odf.DataTypeOption(inner=found))


def _parse_type(text: str, column: str) -> odf.DataType:
    kind = " ".join(text.upper().split())
    if match := _ARRAY.fullmatch(kind):
        item = odf.DataTypeOption(inner=_parse_type(match[1], column))
        return odf.DataTypeList(item_type=item)
    if match := _DECIMAL.fullmatch(kind):
        return odf.DataTypeDecimal(precision=int(match[1]), scale=int(match[2] or 0))
    # lengths of texts and fractions of seconds are not enforced
    plain = _LENGTH.sub("", kind)
    if plain not in _TYPES:
        raise InvalidInputError(
            f"{column!r} has the unknown type {text!r}; known are {', '.join(_TYPES)}, "
            "DECIMAL(p, s) and ARRAY<type>"
        )
    return _TYPES[plain]
