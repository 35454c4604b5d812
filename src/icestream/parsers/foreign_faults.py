"""The border to code of others: whatever a parser or a codec raises becomes an error of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from icestream.errors import IcestreamError

_OURS = (IcestreamError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What passes: errors that say what they mean, and those that end a program."""


@contextmanager
def translated(translate: Callable[[BaseException], IcestreamError]) -> Iterator[None]:
    """Run code of others.

    This is the one place where everything is caught. A file that is not as its library expects can
    lead to any exception, and to panics of libraries in Rust, which are not even an `Exception`;
    none of them may cost more than the file.

    Args:
        translate: Returns the error to raise for a foreign one, which becomes its cause.
    """
    try:
        yield
    except _OURS:
        raise
    except BaseException as error:
        raise translate(error) from error


def told(error: BaseException) -> str:
    """Return what a foreign error says, or at least what it is."""
    return str(error) or type(error).__name__
