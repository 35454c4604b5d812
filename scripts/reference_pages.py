"""Writes the pages of docs/reference that come from the code: `make reference`."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from icestream import errors
from icestream.cli.commands import EXIT_CODES
from icestream.cli.main import app

DIRECTORY = Path(__file__).parent.parent / "docs" / "reference"
WRITTEN_BY = "<!-- written by scripts/reference_pages.py from the code; `make reference` -->\n\n"
SHARED_OPTIONS = (
    "--region",
    "--endpoint-url",
    "--anonymous",
    "--allow-http",
    "--output",
)

ADDRESSES = """\
ADDRESS is a directory or a URL: `./ocean`, `file:///data/ocean`, `s3://bucket/prefix`,
`gs://bucket/prefix`, `az://account/container/prefix`, `https://host/path` (reading only).
Credentials come from the environment.

"""
VERSIONS = """\
VERSION is a branch, a tag or a snapshot id, looked up in this order; `branch:NAME`, `tag:NAME` and
`snapshot:ID` leave no doubt.

"""
ABOUT_ERRORS = """\
Every error that this package raises on purpose is an `IcestreamError`. Classes say what a caller
can do; `error.kind`, an `ErrorKind`, says precisely what happened. Kinds are texts that never
change, so programs may match on them. Errors pickle with all their attributes.

"""


def pages() -> dict[Path, str]:
    """Return every page with its text."""
    return {DIRECTORY / "cli.md": cli_page(), DIRECTORY / "errors.md": errors_page()}


def main() -> None:
    """Write all pages."""
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote {path}")


# -- the command line -----------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its words, such as `icestream branch list`."""
    yield from _below("icestream", typer.main.get_command(app))


def _below(words: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from _below(f"{words} {name}", found)
        else:
            yield f"{words} {name}", found


def cli_page() -> str:
    """Return the page about the command line."""
    listed = list(commands())
    shared = [p for p in listed[0][1].params if _is_shared(p)]
    return "".join(
        [
            WRITTEN_BY,
            "# Command line\n\n",
            "Results go to standard output, errors to standard error.\n\n",
            "## Addresses\n\n",
            ADDRESSES,
            VERSIONS,
            "## Options of every command\n\n",
            *map(_option_line, shared),
            "\n## Exit codes\n\n",
            _exit_codes(),
            "\n## Commands\n",
            *(_command_section(words, found) for words, found in listed),
        ]
    )


def _command_section(words: str, found: Any) -> str:
    arguments = [p for p in found.params if p.param_type_name == "argument"]
    options = [p for p in found.params if p.param_type_name == "option" and not _is_shared(p)]
    usage = " ".join([words, *map(_argument_usage, arguments), *map(_option_usage, options)])
    described = [p for p in arguments if p.name != "address"]
    lines = [*(_argument_line(p) for p in described), *(_option_line(p) for p in options)]
    listing = "\n" + "".join(lines) if lines else ""
    return f"\n### {words}\n\n{inspect.cleandoc(found.help)}\n\n```\n{usage}\n```\n{listing}"


def _is_shared(parameter: Any) -> bool:
    return parameter.name == "help" or bool(set(parameter.opts) & set(SHARED_OPTIONS))


def _argument_usage(argument: Any) -> str:
    name = argument.name.upper()
    return name if argument.required else f"[{name}]"


def _option_usage(option: Any) -> str:
    name = option.opts[0] if option.is_flag else f"{option.opts[0]} {_value_name(option)}"
    return name if option.required else f"[{name}]"


def _argument_line(argument: Any) -> str:
    default = f" Default: `{argument.default}`." if argument.default else ""
    return f"- `{argument.name.upper()}`: {argument.help}{default}\n"


def _option_line(option: Any) -> str:
    value = "" if option.is_flag else f" {_value_name(option)}"
    shown = not option.is_flag and option.default is not None and not callable(option.default)
    default = f" Default: `{option.default}`." if shown else ""
    return f"- `{', '.join(option.opts)}{value}`: {option.help}{default}\n"


def _value_name(option: Any) -> str:
    return str(option.metavar or option.name.upper())


def _exit_codes() -> str:
    by_code: dict[int, list[str]] = {}
    for error, code in EXIT_CODES.items():
        by_code.setdefault(code, []).append(f"`{error.__name__}`")
    meanings = {
        0: "done",
        1: "a bug of this package",
        2: "the command line or a value is wrong",
        3: "something asked for does not exist",
        4: "the state of the repository does not allow it: conflict, name taken, read-only",
        5: "the object store failed or refused",
        6: "stored bytes are damaged or unknown",
        7: "done, but files of an archive are set aside",
        8: "a source is not as it must be, and nothing was done",
    }
    rows = [
        f"| {code} | {meaning} | {', '.join(by_code.get(code, []))} |\n"
        for code, meaning in meanings.items()
    ]
    return "| code | meaning | errors |\n|---|---|---|\n" + "".join(rows)


# -- errors ---------------------------------------------------------------------------------------


def errors_page() -> str:
    """Return the page about errors."""
    tree = (errors.__doc__ or "").split("\n\n")[1]
    drawn = inspect.cleandoc(tree)
    return "".join(
        [
            WRITTEN_BY,
            "# Errors\n\n",
            ABOUT_ERRORS,
            "## Classes\n\n",
            f"```text\n{drawn}\n```\n\n",
            "| class | meaning | kind unless said otherwise |\n|---|---|---|\n",
            *(_class_row(cls) for cls in error_classes()),
            "\n## Kinds\n\n",
            "| kind | text |\n|---|---|\n",
            *(f"| `{kind.name}` | `{kind.value}` |\n" for kind in errors.ErrorKind),
        ]
    )


def error_classes() -> list[type[errors.IcestreamError]]:
    """Return all classes of errors, in the order of the module."""
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.IcestreamError)
    ]


def _class_row(cls: type[errors.IcestreamError]) -> str:
    first_line = inspect.cleandoc(cls.__doc__ or "").split("\n", maxsplit=1)[0]
    return f"| `{cls.__name__}` | {first_line} | `{cls.default_kind.value}` |\n"


if __name__ == "__main__":
    main()
