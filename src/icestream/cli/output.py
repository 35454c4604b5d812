"""Results and errors on the terminal: text for people, JSON for programs."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Protocol, assert_never

from icestream.cli.results import Document, Done, Record, Result, Stream, Table
from icestream.errors import IcestreamError


class OutputFormat(StrEnum):
    """How results are shown."""

    text = "text"
    json = "json"


class Output(Protocol):
    """Shows results on standard output, errors on standard error."""

    def show(self, result: Result) -> int:
        """Show what a command returned; return the exit code that it asks for."""

    def show_error(self, error: IcestreamError) -> None:
        """Show why a command failed."""


class JsonOutput:
    """One JSON value per command."""

    def show(self, result: Result) -> int:
        """Write the result as JSON."""
        match result:
            case Stream(documents):
                return _show_all(documents, lambda each: _json(each.data, indent=None))
            case Table(columns, rows):
                data: Any = [dict(zip(columns, row, strict=True)) for row in rows]
            case Record(values) | Done(values=values):
                data = values
            case Document(data=data):
                pass
            case _:
                assert_never(result)
        sys.stdout.write(_json(data) + "\n")
        return _exit_code(result)

    def show_error(self, error: IcestreamError) -> None:
        """Write the error as JSON."""
        report = {"error": type(error).__name__, "kind": error.kind, "message": str(error)}
        sys.stderr.write(_json(report) + "\n")


class TextOutput:
    """Tables and lines; columns are aligned, long cells are never cut."""

    def show(self, result: Result) -> int:
        """Write the result as text."""
        match result:
            case Stream(documents):
                return _show_all(documents, lambda each: each.text.rstrip("\n"))
            case Table(columns, rows):
                _show_grid([[c.upper().replace("_", " ") for c in columns], *rows])
            case Record(values):
                _show_grid([[name.replace("_", " "), value] for name, value in values.items()])
            case Document(text) | Done(message=text):
                sys.stdout.write(text.rstrip("\n") + "\n")
            case _:
                assert_never(result)
        return _exit_code(result)

    def show_error(self, error: IcestreamError) -> None:
        """Write the error as one line, in colour where there is a terminal."""
        from rich.console import Console  # noqa: PLC0415  costs more than most commands
        from rich.text import Text  # noqa: PLC0415  as above

        report = Text.assemble(("error: ", "bold red"), str(error))
        Console(stderr=True, soft_wrap=True).print(report)


def output_of(chosen: OutputFormat) -> Output:
    """Return the output for a format."""
    return JsonOutput() if chosen is OutputFormat.json else TextOutput()


def _show_all(documents: Iterator[Document], line_of: Callable[[Document], str]) -> int:
    """Show documents as they come; whoever reads them through a pipe need not wait for more."""
    exit_code = 0
    for document in documents:
        sys.stdout.write(line_of(document) + "\n")
        sys.stdout.flush()
        exit_code = document.exit_code
    return exit_code


def _exit_code(result: Result) -> int:
    return result.exit_code if isinstance(result, Document) else 0


def _show_grid(rows: list[Any]) -> None:
    cells = [[_text(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case Enum():
            return value.name
        case list() | tuple() | set():
            return ", ".join(map(_text, value)) or "-"
        case dict():
            return ", ".join(f"{name}={_text_inside(item)}" for name, item in value.items()) or "-"
        case _:
            return str(value)


def _text_inside(value: Any) -> str:
    return _json(value, indent=None) if isinstance(value, dict | list) else _text(value)


def _json(data: Any, indent: int | None = 2) -> str:
    return json.dumps(data, indent=indent, default=_jsonable, ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Enum():
            return value.name
        case set():
            return sorted(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")
