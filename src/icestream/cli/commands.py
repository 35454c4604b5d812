"""What all commands share: the address, the connection, the output, the exit codes."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from icestream.cli.addresses import Target
from icestream.cli.output import OutputFormat, output_of
from icestream.cli.results import Result
from icestream.errors import (
    AccessError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    IcestreamError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    SessionStateError,
    SourceError,
    StorageError,
)

EXIT_CODES: dict[type[IcestreamError], int] = {
    InvalidInputError: 2,
    NotFoundError: 3,
    ConflictError: 4,
    AlreadyExistsError: 4,
    ReadOnlyError: 4,
    SessionStateError: 4,
    StorageError: 5,
    AccessError: 5,
    CommitUnknownError: 5,
    FormatError: 6,
    IntegrityError: 6,
    SourceError: 8,
}
"""By class of error; any other failure ends with 1."""

SET_ASIDE_EXIT_CODE = 7
"""What was asked for is done, but for some files of an archive."""

Region = Annotated[str | None, typer.Option(help="Region of an s3:// bucket.")]
Endpoint = Annotated[
    str | None, typer.Option(metavar="URL", help="Where the store is, if not at its usual place.")
]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Send no credentials.")]
AllowHttp = Annotated[bool, typer.Option("--allow-http", help="Allow an endpoint without TLS.")]
_Output = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", metavar="text|json", help="How to show the result."),
]


def new_group(help_text: str) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(help=help_text, no_args_is_help=True)


def command[**P](
    app: typer.Typer, name: str, *, of: str = "repository"
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Register a function as a command; `of` says what is at its address.

    The function takes a `Target` first and returns what to show. On the command line the target
    is the address and the options of the connection; `--output` says how to show the result. A
    function with a parameter `output` has formats of its own besides text and JSON, which it makes
    itself, as text.
    """
    address_type = Annotated[str, typer.Argument(help=f"Directory or URL of the {of}.")]

    def register(function: Callable[P, Result]) -> Callable[P, Result]:
        call: Callable[..., Result] = function
        target, *own = inspect.signature(function, eval_str=True).parameters.values()
        has_own_formats = any(parameter.name in _SHOWN for parameter in own)

        def run(address: str, output: StrEnum, **arguments: Any) -> None:
            connection = {option: arguments.pop(option) for option in _CONNECTION}
            if has_own_formats:
                arguments["output"] = output
            shown = OutputFormat.json if output == OutputFormat.json else OutputFormat.text
            _show(shown, lambda: call(Target(address=address, **connection), **arguments))

        address = target.replace(name="address", annotation=address_type)
        shared = _CONNECTION if has_own_formats else {**_CONNECTION, **_SHOWN}
        _set_signature(run, [address, *_keywords(own, shared)])
        run.__doc__ = function.__doc__
        app.command(name)(run)
        return function

    return register


def local_command[**P](
    app: typer.Typer, name: str
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Register a function as a command that needs no repository; it returns what to show."""

    def register(function: Callable[P, Result]) -> Callable[P, Result]:
        call: Callable[..., Result] = function

        def run(output: OutputFormat, **arguments: Any) -> None:
            _show(output, lambda: call(**arguments))

        own = inspect.signature(function, eval_str=True).parameters.values()
        _set_signature(run, _keywords(own, _SHOWN))
        run.__doc__ = function.__doc__
        app.command(name)(run)
        return function

    return register


def _show(output: OutputFormat, call: Callable[[], Result]) -> None:
    shown = output_of(output)
    try:
        code = shown.show(call())
    except IcestreamError as error:
        shown.show_error(error)
        code = exit_code(error)
    if code:
        sys.exit(code)


def _set_signature(run: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    # typer reads the parameters of a command from its signature
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions may have one


def _keywords(
    own: Iterable[inspect.Parameter], shared: Mapping[str, tuple[Any, Any]]
) -> list[inspect.Parameter]:
    """Return the parameters of a command and those that it shares, by keyword."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [parameter.replace(kind=keyword) for parameter in own] + [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in shared.items()
    ]


def exit_code(error: IcestreamError) -> int:
    """Return the exit code for an error."""
    codes = [code for kind, code in EXIT_CODES.items() if isinstance(error, kind)]
    return codes[0] if codes else 1


_CONNECTION = {
    "region": (Region, None),
    "endpoint_url": (Endpoint, None),
    "anonymous": (Anonymous, False),
    "allow_http": (AllowHttp, False),
}

_SHOWN = {"output": (_Output, OutputFormat.text)}
