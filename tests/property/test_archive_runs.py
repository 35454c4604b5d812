"""Files come late, change, break and go: run after run makes what one run over the rest makes."""

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest_builders import scanned_file, virtual_array
from tests.quick_runs import NO_RULES, patch_large_arrays
from tests.run_results import documents_of, references_of, results_of

from icestream.errors import SourceError
from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnVanished,
    Policies,
    Target,
)
from icestream.ingest.engines import scanning
from icestream.ingest.opened_archives import Places, open_archive
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.model.chunk_tables import replace_columns
from icestream.parsers.scanned_files import FileIdentity, ScannedArray, ScannedFile
from icestream.storage import in_memory_storage

NUM_DAYS = 8
BROKEN = "no dataset"
KINDS = {"A": ("sst", "mask"), "B": ("ice",), "C": ("wind", "mask")}
"""Files of a day, and what they hold."""

Event = tuple[str, int, str, int]
"""What happens to the file of a day, of a kind, in a version."""


# -- files ----------------------------------------------------------------------------------------


def scan_synthetic(url: str, **_: Any) -> ScannedFile:
    """Return what the text of a file says."""
    path = Path(url.removeprefix("file://"))
    text = path.read_text()
    if text == BROKEN:
        raise SourceError(f"{url} is {BROKEN}")
    said = json.loads(text)
    day, version = said["day"], said["version"]
    every = {
        "sst": virtual_array(url, ("time", "x"), (2, 4), (1, 2)),
        "ice": virtual_array(url, ("x", "time"), (4, 2), (4, 1)),
        "wind": virtual_array(url, ("time", "x"), (2, 4), (2, 4)),
        "mask": virtual_array(url, ("x", "y"), (4, 8), (2, 8)),
    }
    names = KINDS[said["kind"]]
    date = np.datetime64("2020-02-27") + np.timedelta64(day, "D")
    file = scanned_file(
        url,
        {name: changed(every[name], version) for name in names},
        {"time": np.array([0.0, 12.0]), "x": np.arange(4.0)},
        time={"units": f"hours since {date} 00:00:00", "calendar": "standard"},
    )
    found = path.stat()
    identity = FileIdentity(size=found.st_size, etag=f"{day}-{version}")
    return replace(file, identity=identity, groups={"/": {"source": "x", "release": version}})


def changed(array: ScannedArray, version: int) -> ScannedArray:
    table = array.references
    moved = replace_columns(table, byte_offset=table.byte_offset + np.uint64(1000 * version))
    return replace(array, references=moved)


@dataclass
class World:
    """An archive of synthetic files."""

    folder: Path
    step: str | None
    moments: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))

    def archive(self) -> Archive:
        return Archive(
            name="sst",
            sources=(f"{self.folder}/*.nc",),
            combine=Combination(
                along=(Axis(dimension="time", step=self.step),), constant=("mask",)
            ),
            policies=Policies(on_vanished=OnVanished.REMOVE),
            target=Target(repository="elsewhere", chunk_manifests=NO_RULES, splits={"time": 3}),
        )

    def happen(self, event: Event) -> None:
        """Let something become of a file."""
        what, day, kind, version = event
        # names are in another order than days, so that the first file is anywhere
        path = self.folder / f"{day * 3 % NUM_DAYS}-{day}-{kind}.nc"
        if what == "remove":
            path.unlink(missing_ok=True)
            return
        said = {"day": day, "kind": kind, "version": version}
        path.write_text(BROKEN if what == "break" else json.dumps(said))
        moment = next(self.moments)
        os.utime(path, (moment, moment))

    def run(self, places: Places) -> RunReport:
        return run_archive(self.archive(), places=places)


def new_places() -> Places:
    return Places(repository=in_memory_storage(), ledger=in_memory_storage())


events = st.tuples(
    st.sampled_from(["put", "put", "put", "remove", "break"]),
    st.integers(0, NUM_DAYS - 1),
    st.sampled_from([*KINDS]),
    st.integers(0, 1),
)
batches = st.lists(st.lists(events, min_size=1, max_size=6), min_size=2, max_size=4)


@pytest.fixture(autouse=True, params=["small", "large"], scope="module")
def synthetic_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "scan_file_isolated", scan_synthetic)
        if request.param == "large":
            patch_large_arrays(patch, max_chunks=6)
        yield


# -- what holds -----------------------------------------------------------------------------------


@settings(max_examples=max(settings.default.max_examples // 8, 5))
@given(story=batches, step=st.sampled_from([None, "12 hours"]))
def test_many_runs_make_what_one_run_makes(story: list[list[Event]], step: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world, places, fresh = World(Path(folder), step), new_places(), new_places()
        for batch in story:
            for event in batch:
                world.happen(event)
            if not any(world.folder.iterdir()):  # such an archive is refused
                world.happen(("put", 5, "B", 0))
            report = world.run(places)
            again = world.run(places)
            assert again.is_empty
            assert again.set_aside == report.set_aside
        in_steps = results_of(world.archive(), places)
        assert report.set_aside == world.run(fresh).set_aside
        repository = open_archive(world.archive(), fresh).repository
        assert in_steps.documents == documents_of(repository)
        assert in_steps.references == references_of(repository)
