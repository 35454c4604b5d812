"""Preparing: from the bytes that were fetched to those that are read."""

import fnmatch
import gzip
import io
import subprocess
import zipfile
import zlib
from collections.abc import Sequence
from typing import assert_never

from icestream.errors import AccessError, SourceError
from icestream.ledger.blocks.sources import (
    CompressionFormat,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
)

_SHOWN = 500


def prepare(data: bytes, steps: Sequence[PrepStep], *, allows_commands: bool = False) -> bytes:
    """Return bytes after some steps, one after the other.

    Args:
        data: What was fetched.
        steps: Unpack it, or send it through commands.
        allows_commands: Whether commands may run: they come from the metadata of the dataset,
            whose author must be trusted for it.

    Raises:
        SourceError: An archive is damaged or holds another number of files, or a command failed.
        AccessError: There is a command, and none may run.
    """
    for step in steps:
        match step:
            case PrepStepDecompress(format=CompressionFormat.GZIP):
                data = _gunzip(data)
            case PrepStepDecompress(sub_path=pattern):
                data = _unzip(data, pattern)
            case PrepStepPipe(command=command) if allows_commands:
                data = _pipe(data, command)
            case PrepStepPipe(command=command):
                raise AccessError(
                    f"the source wants to run {' '.join(command)!r}; "
                    "allow commands if you trust its author"
                )
            case _:
                assert_never(step)
    return data


def _gunzip(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"the input is no gzip file: {error}") from error


def _unzip(data: bytes, pattern: str | None) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [item.filename for item in archive.infolist() if not item.is_dir()]
            return archive.read(_chosen(names, pattern))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"the input is no zip file that can be read: {error}") from error


def _chosen(names: Sequence[str], pattern: str | None) -> str:
    chosen = [name for name in names if pattern is None or fnmatch.fnmatchcase(name, pattern)]
    if len(chosen) == 1:
        return chosen[0]
    wanted = "no subPath is given" if pattern is None else f"the subPath is {pattern!r}"
    raise SourceError(
        f"one file of an archive is read, and {len(chosen)} match ({wanted}); "
        f"the archive has {', '.join(names)[:_SHOWN] or 'none'}"
    )


def _pipe(data: bytes, command: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603  a declared step, and the caller allows commands
            list(command), input=data, capture_output=True, check=True
        )
    except (OSError, IndexError) as error:
        raise SourceError(f"{' '.join(command)!r} cannot be run: {error}") from error
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip()[-_SHOWN:]
        raise SourceError(
            f"{' '.join(command)!r} ended with code {error.returncode}: {message}"
        ) from error
    return done.stdout
