"""The public names of a package and how they are called, so that two packages can be compared."""

import ast
import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

ANY = "?"
"""A default that a stub does not tell."""
REQUIRED = "required"
CONSTRUCTOR = "__init__"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    kind: str
    default: str

    def __str__(self) -> str:
        mark = {"positional": "/", "keyword": "*", "either": ""}.get(self.kind, self.kind)
        return f"{mark}{self.name}" + ("" if self.default == REQUIRED else f"={self.default}")


@dataclass(frozen=True, slots=True)
class Callee:
    """A function or method, without its self or cls."""

    parameters: tuple[Parameter, ...]
    is_async: bool = False

    def __str__(self) -> str:
        return f"{'async ' if self.is_async else ''}({', '.join(map(str, self.parameters))})"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property, field, constant or nested class."""

    settable: bool = False

    def __str__(self) -> str:
        return "settable attribute" if self.settable else "attribute"


Member = Callee | Attribute


# -- from the running package ---------------------------------------------------------------------


def members_of_class(cls: type, package: str) -> dict[str, Member]:
    """Return the public members that a package defines on a class, and its constructors."""
    homes = [base for base in cls.__mro__ if base.__module__.startswith(package)]
    names = {name for home in homes for name in _own_names(home) if not name.startswith("_")}
    members = {name: _member(cls, name) for name in names}
    if issubclass(cls, Exception):
        members |= dict.fromkeys(vars(cls("message")), Attribute(settable=True))
    elif not issubclass(cls, Enum):
        members[CONSTRUCTOR] = callee_of(cls)
    for name in names:
        nested = inspect.getattr_static(cls, name, None)
        if isinstance(nested, type):
            members[f"{name}.{CONSTRUCTOR}"] = callee_of(nested)
    return members


def callee_of(function: Callable[..., Any]) -> Callee:
    """Return how a function is called."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return Callee((Parameter("args", "*", REQUIRED), Parameter("kwargs", "**", REQUIRED)))
    return Callee(
        tuple(
            Parameter(p.name, _KINDS[p.kind], _default(p.default))
            for p in signature.parameters.values()
            if p.name not in {"self", "cls"}
        ),
        inspect.iscoroutinefunction(function),
    )


def _own_names(cls: type) -> set[str]:
    fields = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    return {*vars(cls), *fields, *getattr(cls, "__annotations__", {})}


def _member(cls: type, name: str) -> Member:
    value = inspect.getattr_static(cls, name, None)
    if isinstance(value, property):
        return Attribute(settable=value.fset is not None)
    if isinstance(value, FunctionType | staticmethod | classmethod | MethodType):
        return callee_of(getattr(cls, name))
    return Attribute(settable=_is_mutable(cls))


def _is_mutable(cls: type) -> bool:
    return not (dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # set by the decorator


_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def _default(value: Any) -> str:
    match value:
        case inspect.Parameter.empty:
            return REQUIRED
        case Enum():
            return value.name
        case None | bool() | int() | float() | str() | tuple():
            return repr(value)
        case _:
            return ANY


# -- from a stub ----------------------------------------------------------------------------------


class Stub:
    """The classes and functions that a stub file declares."""

    @classmethod
    def of_text(cls, text: str) -> "Stub":
        """Return what the text of a stub file declares."""
        return cls(ast.parse(text))

    def __init__(self, tree: ast.Module) -> None:
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.functions = {
            node.name: _callee(node, is_method=False)
            for node in tree.body
            if isinstance(node, _FUNCTIONS)
        }

    def members_of_class(self, name: str) -> dict[str, Member]:
        """Return the public members of a class with those of its bases in the stub."""
        return dict(self._members(name))

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def _members(self, name: str) -> Iterator[tuple[str, Member]]:
        node = self._classes[name]
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in self._classes:
                yield from self._members(base.id)
        # a setter comes after its property and takes its place
        for statement in node.body:
            yield from _declared(statement)


_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def _declared(statement: ast.stmt) -> Iterator[tuple[str, Member]]:
    match statement:
        case ast.FunctionDef(name="__init__" | "__new__"):
            yield CONSTRUCTOR, _callee(statement, is_method=True)
        case ast.FunctionDef() | ast.AsyncFunctionDef() if not statement.name.startswith("_"):
            yield statement.name, _function_member(statement)
        case ast.ClassDef(name=name) if not name.startswith("_"):
            yield name, Attribute()
            for nested, member in (pair for inner in statement.body for pair in _declared(inner)):
                if nested == CONSTRUCTOR:
                    yield f"{name}.{CONSTRUCTOR}", member
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            if not name.startswith("_"):
                yield name, Attribute()
        case _:
            return


def _function_member(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Member:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if "property" in decorators:
        return Attribute()
    if any(decorator.endswith(".setter") for decorator in decorators):
        return Attribute(settable=True)
    return _callee(node, is_method="staticmethod" not in decorators)


def _callee(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> Callee:
    arguments = node.args
    positional = [(a, "positional") for a in arguments.posonlyargs]
    positional += [(a, "either") for a in arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [None] * missing + list(arguments.defaults)
    parameters = [
        Parameter(a.arg, kind, _stub_default(default))
        for (a, kind), default in zip(positional, defaults, strict=True)
    ][int(is_method) :]
    if arguments.vararg:
        parameters.append(Parameter(arguments.vararg.arg, "*", REQUIRED))
    parameters += [
        Parameter(a.arg, "keyword", _stub_default(default))
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        parameters.append(Parameter(arguments.kwarg.arg, "**", REQUIRED))
    return Callee(tuple(parameters), isinstance(node, ast.AsyncFunctionDef))


def _stub_default(node: ast.expr | None) -> str:
    match node:
        case None:
            return REQUIRED
        case ast.Attribute(attr=name):
            return name
        case ast.Constant(value=value) if value is not ...:
            return repr(value)
        case _:
            return ANY


# -- modules --------------------------------------------------------------------------------------


@functools.cache
def public_names(module_name: str) -> tuple[str, ...]:
    """Return what a module offers: its `__all__`, or what it defines itself."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        return tuple(module.__all__)
    return tuple(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", None) == module_name
    )
