"""Logical types of columns: what values mean, not how they are laid out (RFC-016).

A column may hold nulls where its type is wrapped in `DataTypeOption`.
"""

from dataclasses import dataclass
from enum import StrEnum

from icestream.ledger.blocks.attributes import ExtraAttributes

type DataType = (
    DataTypeBinary
    | DataTypeBool
    | DataTypeDate
    | DataTypeDecimal
    | DataTypeDuration
    | DataTypeFloat16
    | DataTypeFloat32
    | DataTypeFloat64
    | DataTypeInt8
    | DataTypeInt16
    | DataTypeInt32
    | DataTypeInt64
    | DataTypeUInt8
    | DataTypeUInt16
    | DataTypeUInt32
    | DataTypeUInt64
    | DataTypeList
    | DataTypeMap
    | DataTypeNull
    | DataTypeOption
    | DataTypeStruct
    | DataTypeTime
    | DataTypeTimestamp
    | DataTypeString
)


class TimeUnit(StrEnum):
    """How finely a time is counted."""

    SECOND = "Second"
    MILLISECOND = "Millisecond"
    MICROSECOND = "Microsecond"
    NANOSECOND = "Nanosecond"


DEFAULT_UNIT = TimeUnit.MILLISECOND
"""The unit of times that state none."""
DEFAULT_TIMEZONE = "UTC"
"""The time zone of timestamps that state none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """A named column, or member of a struct."""

    name: str
    type: DataType
    extra: ExtraAttributes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeBinary:
    """Bytes."""

    fixed_length: int | None = None


@dataclass(frozen=True, slots=True)
class DataTypeBool:
    """True or false."""


@dataclass(frozen=True, slots=True)
class DataTypeDate:
    """A day of the calendar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDecimal:
    """Decimal numbers of `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDuration:
    """A length of time."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True)
class DataTypeFloat16:
    """Floating-point numbers of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeFloat32:
    """Floating-point numbers of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeFloat64:
    """Floating-point numbers of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt8:
    """Signed integers of 8 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt16:
    """Signed integers of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt32:
    """Signed integers of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt64:
    """Signed integers of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt8:
    """Unsigned integers of 8 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt16:
    """Unsigned integers of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt32:
    """Unsigned integers of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt64:
    """Unsigned integers of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeList:
    """Lists whose items have one type."""

    item_type: DataType
    fixed_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeMap:
    """Pairs of keys and values."""

    key_type: DataType
    value_type: DataType
    keys_sorted: bool | None = None


@dataclass(frozen=True, slots=True)
class DataTypeNull:
    """No value at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeOption:
    """Values of another type, or nulls."""

    inner: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeStruct:
    """Records of named fields."""

    fields: tuple[DataField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeTime:
    """A time of day."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeTimestamp:
    """A moment."""

    unit: TimeUnit | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class DataTypeString:
    """Unicode text."""
