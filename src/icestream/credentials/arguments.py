"""Checks that the functions which make credentials share."""

from icestream.errors import ErrorKind, InvalidInputError


def at_most_one_way(function: str, **ways: object) -> None:
    """Refuse arguments that name several ways to authenticate."""
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        raise bad_arguments(f"{function} takes one of these, not all: {', '.join(given)}")


def not_refused(function: str, *, from_env: bool | None) -> None:
    """Refuse to fall back to the environment when the caller said not to."""
    if from_env is False:
        raise bad_arguments(f"{function} got no credentials, and from_env is False")


def bad_arguments(message: str) -> InvalidInputError:
    """Return the error for arguments that make no credential."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_CREDENTIALS)
