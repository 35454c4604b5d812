"""The front door of the ledger: what it shows, and what opening it costs."""

import subprocess
import sys

import pytest

from icestream import ledger


@pytest.mark.parametrize("name", ledger.__all__)
def test_every_exported_name_exists(name: str) -> None:
    assert getattr(ledger, name) is not None


def test_exported_names_are_sorted_and_listed_by_dir() -> None:
    assert ledger.__all__ == sorted(set(ledger.__all__))
    assert set(ledger.__all__) <= set(dir(ledger))
    assert set(ledger._HOMES) == set(ledger.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ledger.no_such_name


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("import icestream.ledger", {"zarr", "pyspark", "pyarrow", "obstore", "cryptography"}),
        ("from icestream.ledger import decode_block", {"zarr", "pyspark", "pyarrow", "obstore"}),
        ("from icestream.ledger import Dataset, Workspace", {"zarr", "pyspark", "obstore"}),
    ],
)
def test_only_what_is_needed_is_loaded(code: str, unneeded: set[str]) -> None:
    report = "\nimport sys; print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(  # noqa: S603  our own code
        [sys.executable, "-c", code + report], capture_output=True, text=True, check=True
    )

    assert unneeded.isdisjoint(done.stdout.split())
