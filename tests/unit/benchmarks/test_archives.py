"""The archives that benchmarks ingest are what they are said to be."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import xarray as xr
from benchmarks.archives import (
    REFERENCES_PER_FILE,
    VARIABLES,
    write_hollow_files,
    write_netcdf4_files,
)
from benchmarks.process_trees import tree_cpu_seconds, watched_memory

from icestream.parsers.scanning import scan_file

PARSER = "benchmarks.archives:parse_hollow_file"


def test_netcdf4_files_differ_in_their_day_and_nothing_else(tmp_path: Path) -> None:
    write_netcdf4_files(tmp_path, 60)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 60
    first, later = (xr.load_dataset(paths[number], engine="h5netcdf") for number in (0, 59))
    assert first.time.values == [np.datetime64("2000-01-01T12", "ns")]
    assert later.time.values == [np.datetime64("2000-02-29T12", "ns")]
    xr.testing.assert_equal(later.drop_vars("time"), first.drop_vars("time"))


def test_netcdf4_files_have_four_variables_of_twenty_chunks(tmp_path: Path) -> None:
    write_netcdf4_files(tmp_path, 1)
    (path,) = tmp_path.iterdir()
    arrays = scan_file(str(path)).arrays
    assert set(arrays) == {"/time", "/lat", "/lon", *(f"/{name}" for name in VARIABLES)}
    chunks = [len(arrays[f"/{name}"].references) for name in VARIABLES]
    assert chunks == [20] * 4
    assert sum(chunks) == REFERENCES_PER_FILE


def test_hollow_files_have_the_references_that_their_names_say(tmp_path: Path) -> None:
    write_hollow_files(tmp_path, 2, 2_000)
    first, second = sorted(tmp_path.rglob("*.bin"))
    table = scan_file(str(second), parser=PARSER).arrays["/data"].references
    assert len(table) == 2_000
    assert table.locations.to_pylist() == [second.as_uri()]
    assert len(np.unique(table.byte_offset)) == 2_000
    assert first.stat().st_blocks == 0


def test_the_memory_of_a_process_below_is_seen() -> None:
    work = "data = bytearray(60_000_000); input()"
    with (
        watched_memory() as memory,
        subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-c", work], stdin=subprocess.PIPE
        ) as child,
    ):
        for _ in range(100):
            memory.sample()
            if memory.largest_mb("python") > 60:
                break
        child.communicate(b"\n")
    assert memory.largest_mb("python") > 60
    assert memory.own_mb > 10
    assert memory.largest_mb("no such program") == 0


def test_the_processor_time_of_a_process_below_counts_when_it_has_ended() -> None:
    before = tree_cpu_seconds()
    work = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", work], check=True)  # noqa: S603  our own interpreter
    assert tree_cpu_seconds() - before > 0.25
