"""A script written for icechunk runs after changing its import line, but for the list below."""

import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import icechunk
import pytest
from tests.architecture.surfaces import (
    ANY,
    Attribute,
    Callee,
    Member,
    Parameter,
    Stub,
    callee_of,
    members_of_class,
    public_names,
)

SUBMODULES = (
    "config",
    "conflicts",
    "credentials",
    "dask",
    "distributed",
    "ops",
    "repository",
    "session",
    "snapshots",
    "storage",
    "store",
    "types",
    "virtual",
    "xarray",
)

_TELEMETRY = "nothing is sent over OTLP, so there is nothing to shut down"
_MADE_BY_REPOSITORY = "made by the methods of Repository; the constructor is nobody's interface"
_MADE_BY_FUNCTIONS = "storages are made by the functions of icestream.storage"
_INTERNAL_TO_DASK = "a helper of icechunk's own dask module, which has no __all__"
_ONE_MORE_KEYWORD = "has one keyword more, with a default that does what icechunk does"
_MORE_FORMS = "takes offset and length by position too, and both spellings of validate_container"

DIFFERENCES: dict[str, str] = {
    "shutdown_telemetry": _TELEMETRY,
    "config.shutdown_telemetry": _TELEMETRY,
    "dask.computing_meta": _INTERNAL_TO_DASK,
    "dask.merge_sessions_array_kwargs": _INTERNAL_TO_DASK,
    "ForkSession.__init__": _MADE_BY_REPOSITORY,
    "IcechunkStore.__init__": _MADE_BY_REPOSITORY,
    "Repository.__init__": _MADE_BY_REPOSITORY,
    "Session.__init__": _MADE_BY_REPOSITORY,
    "IcechunkStore.get": "the prototype may be left out",
    "IcechunkStore.set_partial_values": "no zarr 3 store has it, and icechunk's always raises",
    "IcechunkStore.set_virtual_ref": _MORE_FORMS,
    "IcechunkStore.set_virtual_ref_async": _MORE_FORMS,
    "IcechunkStore.set_virtual_refs": _ONE_MORE_KEYWORD,
    "IcechunkStore.set_virtual_refs_async": _ONE_MORE_KEYWORD,
    "IcechunkStore.set_virtual_refs_arr": _ONE_MORE_KEYWORD,
    "IcechunkStore.set_virtual_refs_arr_async": _ONE_MORE_KEYWORD,
    "ManifestSplitDimCondition.Any.__init__": _ONE_MORE_KEYWORD,
    "ManifestSplitDimCondition.Axis.__init__": _ONE_MORE_KEYWORD,
    "ManifestSplitDimCondition.DimensionName.__init__": _ONE_MORE_KEYWORD,
    "Repository.expire_snapshots": _ONE_MORE_KEYWORD,
    "Repository.expire_snapshots_async": _ONE_MORE_KEYWORD,
    "Repository.readonly_session": _ONE_MORE_KEYWORD,
    "Repository.readonly_session_async": _ONE_MORE_KEYWORD,
    "Repository.save_config": _ONE_MORE_KEYWORD,
    "Repository.save_config_async": _ONE_MORE_KEYWORD,
    "Repository.total_chunks_storage": "deprecated; takes any keyword of chunk_storage_stats",
    "Repository.total_chunks_storage_async": "deprecated; takes any keyword of chunk_storage_stats",
    "Session.all_virtual_chunk_locations": _ONE_MORE_KEYWORD,
    "Session.all_virtual_chunk_locations_async": _ONE_MORE_KEYWORD,
    "ForkSession.all_virtual_chunk_locations": _ONE_MORE_KEYWORD,
    "ForkSession.all_virtual_chunk_locations_async": _ONE_MORE_KEYWORD,
    "Storage.default_settings": "settings have one set of defaults, whatever the storage",
    "Storage.new_azure_blob": _MADE_BY_FUNCTIONS,
    "Storage.new_gcs": _MADE_BY_FUNCTIONS,
    "Storage.new_hf": _MADE_BY_FUNCTIONS,
    "Storage.new_http": _MADE_BY_FUNCTIONS,
    "Storage.new_in_memory": _MADE_BY_FUNCTIONS,
    "Storage.new_local_filesystem": _MADE_BY_FUNCTIONS,
    "Storage.new_r2": _MADE_BY_FUNCTIONS,
    "Storage.new_redirect": _MADE_BY_FUNCTIONS,
    "Storage.new_s3": _MADE_BY_FUNCTIONS,
    "Storage.new_s3_object_store": _MADE_BY_FUNCTIONS,
    "Storage.new_tigris": _MADE_BY_FUNCTIONS,
}
"""What is not as in icechunk, by its name there, and why."""

STUB = Stub.of_text((Path(icechunk.__file__).parent / "_icechunk_python.pyi").read_text())


def test_every_difference_from_icechunk_is_known() -> None:
    unknown = {
        name: report for name, report in found_differences().items() if name not in DIFFERENCES
    }

    assert unknown == {}


def test_every_known_difference_still_exists() -> None:
    assert sorted(DIFFERENCES.keys() - found_differences().keys()) == []


def test_the_comparison_sees_the_whole_package() -> None:
    compared = {name: members(name, theirs) for name, (theirs, _) in public_classes().items()}

    assert len(compared) > 60
    assert {"commit", "fork", "store"} <= compared["Session"].keys()
    assert {"region", "__init__"} <= compared["S3Options"].keys()
    assert sum(map(len, compared.values())) > 400


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("(a)", "()"),
        ("(a)", "(b)"),
        ("(a, b)", "(b, a)"),
        ("(a)", "(*, a)"),
        ("(a=1)", "(a=2)"),
        ("(a=1)", "(a)"),
        ("(*a)", "(a)"),
    ],
)
def test_the_comparison_sees_every_kind_of_difference(theirs: str, ours: str) -> None:
    assert not agree(_declared(theirs), callee_of(eval(f"lambda {ours.strip('()')}: 0")))  # noqa: S307  a literal
    assert agree(_declared(theirs), callee_of(eval(f"lambda {theirs.strip('()')}: 0")))  # noqa: S307  a literal


def test_enumerations_have_the_values_of_icechunk() -> None:
    enumerations = [pair for pair in public_classes().values() if issubclass(pair[1], Enum)]

    assert len(enumerations) > 5
    for theirs, ours in enumerations:
        assert _values(theirs).items() <= _values(ours).items(), theirs.__name__


def test_errors_are_caught_by_what_catches_those_of_icechunk() -> None:
    for theirs, ours in public_classes().values():
        if issubclass(theirs, Exception):
            builtin = {base for base in theirs.__mro__ if base.__module__ == "builtins"}
            assert builtin <= set(ours.__mro__), theirs.__name__
            assert {our_name(base.__name__) for base in theirs.__mro__} <= {
                base.__name__ for base in ours.__mro__
            }


def found_differences() -> dict[str, str]:
    return {**dict(module_differences()), **dict(class_differences())}


def module_differences() -> Iterator[tuple[str, str]]:
    """Yield names of modules that are absent here, and functions that are called otherwise."""
    for module in ("", *SUBMODULES):
        theirs = importlib.import_module(f"icechunk.{module}".rstrip("."))
        try:
            ours = importlib.import_module(f"icestream.{module}".rstrip("."))
        except ModuleNotFoundError:
            yield module, "no such module"
            continue
        for name in public_names(theirs.__name__):
            path = f"{module}.{name}".lstrip(".")
            if not hasattr(ours, our_name(name)):
                yield path, "absent"
            elif inspect.isroutine(value := getattr(theirs, name)):
                yield from difference(
                    path, function(name, value), callee_of(getattr(ours, our_name(name)))
                )


def class_differences() -> Iterator[tuple[str, str]]:
    """Yield members of public classes that are absent here or are used otherwise."""
    for name, (theirs, ours) in public_classes().items():
        expected = members(name, theirs)
        found = members_of_class(ours, "icestream")
        for member, form in expected.items():
            path = f"{name}.{member}"
            if member in found:
                yield from difference(path, form, found[member])
            elif not hasattr(ours, member):
                yield path, "absent"


def public_classes() -> dict[str, tuple[type, type]]:
    """Return the classes that both packages show, by the name in icechunk."""
    classes = {}
    for module in ("", *SUBMODULES):
        theirs = importlib.import_module(f"icechunk.{module}".rstrip("."))
        try:
            ours = importlib.import_module(f"icestream.{module}".rstrip("."))
        except ModuleNotFoundError:
            continue
        for name in public_names(theirs.__name__):
            pair = getattr(theirs, name), getattr(ours, our_name(name), None)
            if isinstance(pair[0], type) and isinstance(pair[1], type):
                classes[name] = pair[0], pair[1]
    return classes


def members(name: str, cls: type) -> dict[str, Member]:
    return STUB.members_of_class(name) if name in STUB else members_of_class(cls, "icechunk")


def function(name: str, value: Any) -> Callee:
    return STUB.functions.get(name) or callee_of(value)


def difference(path: str, theirs: Member, ours: Member) -> Iterator[tuple[str, str]]:
    match theirs, ours:
        case Callee(), Callee() if not agree(theirs, ours):
            yield path, f"{theirs} there, {ours} here"
        case (Callee(), Attribute()) | (Attribute(), Callee()):
            yield path, f"{theirs} there, {ours} here"
        case Attribute(settable=True), Attribute(settable=False):
            yield path, "can be set there"
        case _:
            return


def agree(theirs: Callee, ours: Callee) -> bool:
    return (
        theirs.is_async == ours.is_async
        and len(theirs.parameters) == len(ours.parameters)
        and all(
            (a.name, a.kind) == (b.name, b.kind)
            and (a.default == b.default or ANY in {a.default, b.default})
            for a, b in zip(theirs.parameters, ours.parameters, strict=True)
        )
    )


def same_parameter(theirs: Parameter, ours: Parameter) -> bool:
    same_default = theirs.default == ours.default or ANY in {theirs.default, ours.default}
    return (theirs.name, theirs.kind) == (ours.name, ours.kind) and same_default


def _declared(parameters: str) -> Callee:
    return Stub.of_text(f"def f{parameters}: ...").functions["f"]


def _values(cls: type) -> dict[str, int | str]:
    """Return the members of an enumeration; most of icechunk's are no Python enumerations."""
    members = {name: getattr(cls, name) for name in dir(cls) if isinstance(getattr(cls, name), cls)}
    return {name: _value(member) for name, member in members.items()}


def _value(member: Any) -> int | str:
    value = member.value if isinstance(member, Enum) else int(member)
    return value[0] if isinstance(value, tuple) else value


def our_name(name: str) -> str:
    return re.sub(r"^Icechunk(?=[A-Z])", "Icestream", name).replace("to_icechunk", "to_icestream")
