"""Names of logical types as SQL has them, for messages."""

from icestream.ledger.blocks import data_types as odf

_PLAIN: dict[type[odf.DataType], str] = {
    odf.DataTypeBinary: "BINARY",
    odf.DataTypeBool: "BOOLEAN",
    odf.DataTypeDate: "DATE",
    odf.DataTypeDuration: "INTERVAL",
    odf.DataTypeFloat16: "HALF FLOAT",
    odf.DataTypeFloat32: "FLOAT",
    odf.DataTypeFloat64: "DOUBLE",
    odf.DataTypeInt8: "TINYINT",
    odf.DataTypeInt16: "SMALLINT",
    odf.DataTypeInt32: "INT",
    odf.DataTypeInt64: "BIGINT",
    odf.DataTypeUInt8: "UNSIGNED TINYINT",
    odf.DataTypeUInt16: "UNSIGNED SMALLINT",
    odf.DataTypeUInt32: "UNSIGNED INT",
    odf.DataTypeUInt64: "UNSIGNED BIGINT",
    odf.DataTypeNull: "VOID",
    odf.DataTypeString: "STRING",
    odf.DataTypeTime: "TIME",
    odf.DataTypeTimestamp: "TIMESTAMP",
}


def sql_name(kind: odf.DataType) -> str:
    """Return what SQL calls a type; whether values may be null is no part of it.

    Examples:
        >>> sql_name(odf.DataTypeList(item_type=odf.DataTypeInt32()))
        'ARRAY<INT>'
    """
    match kind:
        case odf.DataTypeOption(inner=inner):
            return sql_name(inner)
        case odf.DataTypeDecimal(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case odf.DataTypeList(item_type=item):
            return f"ARRAY<{sql_name(item)}>"
        case odf.DataTypeMap(key_type=key, value_type=value):
            return f"MAP<{sql_name(key)}, {sql_name(value)}>"
        case odf.DataTypeStruct(fields=fields):
            parts = (f"{field.name}: {sql_name(field.type)}" for field in fields)
            return f"STRUCT<{', '.join(parts)}>"
        case _:
            return _PLAIN[type(kind)]


def told_apart(first: odf.DataType, second: odf.DataType) -> tuple[str, str]:
    """Return the names of two types that differ, with all that belongs to them if SQL's do not."""
    names = sql_name(first), sql_name(second)
    return names if names[0] != names[1] else (str(first), str(second))
