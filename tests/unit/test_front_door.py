"""Small things that the front door offers itself."""

import importlib.metadata
import logging

import pytest

import icestream


def test_the_version_is_that_of_the_installed_package() -> None:
    assert icestream.__version__ == importlib.metadata.version("icestream")
    assert icestream.user_agent() == f"icestream-{icestream.__version__}"


def test_new_repositories_get_the_newest_format() -> None:
    assert icestream.spec_version() is icestream.SpecVersion.v2


def test_a_bug_report_names_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    icestream.print_debug_info()

    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["icestream"] == icestream.__version__
    assert {"python", "platform", "zarr", "numpy", "pyarrow", "obstore"} <= lines.keys()


@pytest.mark.parametrize(
    ("directive", "level"),
    [
        ("debug", logging.DEBUG),
        ("trace", logging.DEBUG),
        ("icechunk=warn", logging.WARNING),
        ("ERROR", logging.ERROR),
        (None, logging.WARNING),
    ],
)
def test_the_log_filter_takes_the_words_of_icechunk(directive: str | None, level: int) -> None:
    logger = logging.getLogger("icestream")
    before = logger.level
    try:
        icestream.set_logs_filter(directive)
        assert logger.level == level
    finally:
        logger.setLevel(before)


def test_the_library_logs_nowhere_until_it_is_asked_to() -> None:
    logger = logging.getLogger("icestream")
    assert logger.handlers == []
    try:
        icestream.initialize_logs()
        icestream.initialize_logs()
        assert len(logger.handlers) == 1
    finally:
        logger.handlers.clear()
