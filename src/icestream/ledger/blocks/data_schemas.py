"""Schemas of datasets, and how one may follow another."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from enum import StrEnum

from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.data_types import (
    DEFAULT_TIMEZONE,
    DEFAULT_UNIT,
    DataField,
    DataType,
    DataTypeDuration,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSchema:
    """The columns of a dataset, in order."""

    fields: tuple[DataField, ...]
    extra: ExtraAttributes | None = None


class SchemaChangeKind(StrEnum):
    """How far two schemas differ."""

    IDENTICAL = "identical"
    COSMETIC = "cosmetic"
    """Only in attributes or in the order of fields."""
    EXTENDED = "extended"
    """By fields that may be null."""
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """The step from one schema to the next."""

    kind: SchemaChangeKind
    reasons: tuple[str, ...] = ()
    """Why the step is not allowed, one text per field."""

    @property
    def is_allowed(self) -> bool:
        """Whether slices of both schemas may be in one dataset."""
        return self.kind is not SchemaChangeKind.INCOMPATIBLE


def schema_change(
    old: DataSchema, new: DataSchema, *, ignores_optionality: bool = False
) -> SchemaChange:
    """Compare two schemas; times without unit or zone have the default ones.

    Args:
        old: The schema in force.
        new: The schema to follow it.
        ignores_optionality: Let columns become optional or required: schemas that come from a
            legacy Arrow schema say little about nulls.
    """
    before, after = (_with_default_units(DataTypeStruct(fields=s.fields)) for s in (old, new))
    if before == after and old.extra == new.extra:
        return SchemaChange(kind=SchemaChangeKind.IDENTICAL)
    comparison = _Comparison(ignores_optionality=ignores_optionality)
    comparison.compare(before, after, "")
    if comparison.reasons:
        return SchemaChange(kind=SchemaChangeKind.INCOMPATIBLE, reasons=tuple(comparison.reasons))
    is_extended = comparison.n_added > 0
    return SchemaChange(
        kind=SchemaChangeKind.EXTENDED if is_extended else SchemaChangeKind.COSMETIC
    )


class _Comparison:
    """A walk through two types at once, which notes what was found."""

    def __init__(self, *, ignores_optionality: bool) -> None:
        self.reasons: list[str] = []
        self.n_added = 0
        self._ignores_optionality = ignores_optionality

    def compare(self, old: DataType, new: DataType, path: str) -> None:
        """Note where `new` cannot follow `old`."""
        was_optional, is_optional = (isinstance(kind, DataTypeOption) for kind in (old, new))
        if was_optional != is_optional and not self._ignores_optionality:
            self.reasons.append(f"{path} becomes {'optional' if is_optional else 'required'}")
            return
        match _inner(old), _inner(new):
            case DataTypeStruct(fields=before), DataTypeStruct(fields=after):
                self._compare_fields(before, after, f"{path}." if path else "")
            case before_type, after_type if _shell(before_type) != _shell(after_type):
                self.reasons.append(
                    f"{path} changes from {_name(before_type)} to {_name(after_type)}"
                )
            case before_type, after_type:
                parts = zip(_children(before_type), _children(after_type), strict=True)
                for (label, before_part), (_, after_part) in parts:
                    self.compare(before_part, after_part, path + label)

    def _compare_fields(
        self, old: tuple[DataField, ...], new: tuple[DataField, ...], path: str
    ) -> None:
        before, after = ({field.name: field.type for field in fields} for fields in (old, new))
        if len(before) != len(old) or len(after) != len(new):
            self.reasons.append(f"{path or 'the schema'} has two fields of one name")
        for name, kind in before.items():
            if name in after:
                self.compare(kind, after[name], path + name)
            else:
                self.reasons.append(f"{path}{name} is removed")
        for name in [name for name in after if name not in before]:
            self.n_added += 1
            if not isinstance(after[name], DataTypeOption):
                self.reasons.append(f"{path}{name} is added, but it is not optional")


def _inner(kind: DataType) -> DataType:
    return kind.inner if isinstance(kind, DataTypeOption) else kind


def _name(kind: DataType) -> str:
    name = type(kind).__name__.removeprefix("DataType")
    settings = [
        f"{field.name}={getattr(kind, field.name)}"
        for field in dataclass_fields(kind)
        if isinstance(getattr(kind, field.name), int | str)
    ]
    return f"{name}({', '.join(settings)})" if settings else name


def _children(kind: DataType) -> Iterator[tuple[str, DataType]]:
    """Yield the types that a list or map is made of."""
    match kind:
        case DataTypeList(item_type=item):
            yield "[]", item
        case DataTypeMap(key_type=key, value_type=value):
            yield "[key]", key
            yield "[value]", value
        case _:
            return


def _shell(kind: DataType) -> DataType:
    """Return the type without what it is made of."""
    return _map_children(kind, lambda _: DataTypeNull())


def _with_default_units(kind: DataType) -> DataType:
    """Return the type with the unit, zone and order that are meant where none is stated."""
    kind = _map_children(kind, _with_default_units)
    match kind:
        case DataTypeTimestamp(unit=unit, timezone=zone):
            return DataTypeTimestamp(unit=unit or DEFAULT_UNIT, timezone=zone or DEFAULT_TIMEZONE)
        case DataTypeTime(unit=unit) | DataTypeDuration(unit=unit):
            return replace(kind, unit=unit or DEFAULT_UNIT)
        case DataTypeMap(keys_sorted=keys_sorted):
            return replace(kind, keys_sorted=bool(keys_sorted))
        case _:
            return kind


def _map_children(kind: DataType, change: Callable[[DataType], DataType]) -> DataType:
    """Return the type with each type that it is made of replaced."""
    match kind:
        case DataTypeOption(inner=inner):
            return DataTypeOption(inner=change(inner))
        case DataTypeList(item_type=item):
            return replace(kind, item_type=change(item))
        case DataTypeMap(key_type=key, value_type=value):
            return replace(kind, key_type=change(key), value_type=change(value))
        case DataTypeStruct(fields=fields):
            return DataTypeStruct(
                fields=tuple(replace(field, type=change(field.type)) for field in fields)
            )
        case _:
            return kind
