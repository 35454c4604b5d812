"""The front door: what it shows, and what opening it costs."""

import subprocess
import sys

import pytest

import icestream

LIGHT = ("icestream", "icestream.errors", "icestream.codec", "icestream.codec.manifests")


@pytest.mark.parametrize("name", icestream.__all__)
def test_every_exported_name_exists(name: str) -> None:
    assert getattr(icestream, name) is not None


def test_exported_names_are_sorted_and_listed_by_dir() -> None:
    assert icestream.__all__ == sorted(set(icestream.__all__))
    assert set(icestream.__all__) <= set(dir(icestream))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = icestream.no_such_name


def test_every_public_name_of_the_errors_module_is_exported() -> None:
    errors = {
        name
        for name, value in vars(icestream.errors).items()
        if isinstance(value, type) and issubclass(value, icestream.IcestreamError)
    }

    assert errors <= set(icestream.__all__)


@pytest.mark.parametrize("module", LIGHT)
def test_a_worker_that_decodes_loads_neither_zarr_nor_a_client(module: str) -> None:
    loaded = modules_loaded_by(f"import {module}")

    assert loaded.isdisjoint({"zarr", "xarray", "dask", "obstore", "typer", "rich"})


def test_the_command_line_starts_without_zarr() -> None:
    loaded = modules_loaded_by("import icestream.cli")

    assert loaded.isdisjoint({"zarr", "xarray", "dask", "obstore", "pyspark"})


def test_opening_a_repository_loads_no_client_of_a_remote_store(tmp_path) -> None:
    loaded = modules_loaded_by(
        "import icestream\n"
        f"icestream.Repository.create(icestream.local_filesystem_storage({str(tmp_path)!r}))"
    )

    assert loaded.isdisjoint({"obstore", "xarray", "typer"})


def modules_loaded_by(code: str) -> set[str]:
    """Return the top-level modules that are loaded after running code in a new interpreter."""
    report = "\nimport sys; print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(  # noqa: S603  our own code
        [sys.executable, "-c", code + report], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())
