"""The story of icestream: an archive of files becomes a dataset with versions, and stays right."""

import importlib.util
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

import icestream as ice
from icestream.errors import ObjectChangedError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.runs import run_archive
from icestream.spark import session
from icestream.spark.ingest_engine import SparkEngine

LATE_DAY = 95
COAST = 1.2
LATITUDES, LONGITUDES = 180, 360
FIRST_DAY = np.datetime64("2024-01-01")
DECLARATION = """\
version: 1
name: sst
sources: ["{files}/*.nc"]
combine:
  along:
    - dimension: time
      step: 1 day
target:
  repository: {repository}
"""


def main() -> None:
    """Tell the story in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="icestream-demo-") as directory:
        place = Place(Path(directory))
        make_files(place)
        archive = declare(place)
        engine = start_spark()
        ingest(place, archive, engine)
        open_with_xarray(place)
        change_a_file(place)
        repair(place, archive, engine)
        add_files(place, archive, engine)
        let_files_come_late(place, archive, engine)
        look_back(place)
        let_two_writers_meet(place)
        show_history(place)
        open_with_icechunk(place)


class Place:
    """Where files and the repository are."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.repository = folder / "repository"
        self.prefix = f"{self.files.as_uri()}/"

    def open(self) -> ice.Repository:
        """Open the repository, with the consent to read the files that it refers to."""
        return ice.Repository.open(
            ice.local_filesystem_storage(str(self.repository)),
            authorize_virtual_chunk_access={self.prefix: None},
        )

    def dataset(self, **version: Any) -> xr.Dataset:
        """Open a version with xarray; values are read when they are asked for."""
        store = self.open().readonly_session(**(version or {"branch": "main"})).store
        dataset: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
        return dataset


# -- an archive becomes a dataset -----------------------------------------------------------------


def make_files(place: Place) -> None:
    """Write 90 daily files, as a producer of satellite data does."""
    step("An archive: 90 daily files of sea surface temperature, NetCDF4")
    write_days(place.files, range(90))
    paths = sorted(place.files.iterdir())
    size = sum(path.stat().st_size for path in paths)
    tell(f"{paths[0].name} ... {paths[-1].name}, {size / 1e6:.1f} MB")
    tell("each has packed 16-bit numbers in compressed chunks, and hours since its own midnight")


def declare(place: Place) -> Archive:
    """Say once how the files make a dataset."""
    step("Declare it: where files are, how they combine, where they go")
    text = DECLARATION.format(files=place.files, repository=place.repository)
    for line in text.splitlines():
        tell(line)
    return decode_archive(text.encode())


def start_spark() -> SparkEngine:
    """Start Spark on the cores of this machine; `spark://...` is the same on many."""
    step("Start Spark, on this machine")
    started = time.perf_counter()
    engine = SparkEngine(session("icestream demo", "local[2]"))
    tell(f"{engine}, started in {time.perf_counter() - started:.1f} s")
    return engine


def ingest(place: Place, archive: Archive, engine: SparkEngine) -> None:
    """Make a version of all files."""
    step("Run the archive: executors scan the files and write references to their chunks")
    run(archive, engine)
    place.open().create_tag("first-90-days", place.open().lookup_branch("main"))
    size = sum(file.stat().st_size for file in place.repository.rglob("*") if file.is_file())
    tell(f"the repository has {size / 1e3:.0f} kB; the values stay where they are")


def open_with_xarray(place: Place) -> None:
    """Read the files as one dataset."""
    step("Open it in xarray: one dataset")
    dataset = place.dataset()
    tell(f"sizes {dict(dataset.sizes)}")
    tell(f"from {moment(dataset, 0)} to {moment(dataset, -1)}")
    tell(f"mean of the first day: {mean_of(dataset, 0):.2f} °C")


# -- files change, arrive, and break --------------------------------------------------------------


def change_a_file(place: Place) -> None:
    """Let the producer replace a file, and read it."""
    step("The producer replaces the file of day 10; nobody tells us")
    write_days(place.files, [10], warmer=2.0)
    tell(f"day 9 is read as before: {mean_of(place.dataset(), 9):.2f} °C")
    try:
        mean_of(place.dataset(), 10)
    except ObjectChangedError as error:
        tell("day 10 is refused:")
        for line in textwrap.wrap(str(error).replace(place.prefix, "files/"), 90):
            tell(f"  {line}")


def repair(place: Place, archive: Archive, engine: SparkEngine) -> None:
    """Run again: only the file that changed is scanned."""
    step("Run again: the change is found, and only that file is scanned")
    run(archive, engine)
    tell(f"mean of day 10: {mean_of(place.dataset(), 10):.2f} °C")


def add_files(place: Place, archive: Archive, engine: SparkEngine) -> None:
    """Let ten new files arrive, one of them late and one broken."""
    step("Ten more days arrive, one of them a broken download, and one day is missing")
    write_days(place.files, {*range(90, 101)} - {LATE_DAY})
    broken = path_of(place.files, 100)
    broken.write_bytes(broken.read_bytes()[:20_000])
    run(archive, engine)
    dataset = place.dataset()
    tell(f"{dataset.sizes['time']} days, to {moment(dataset, -1)}")
    missing = bool(dataset.sst[LATE_DAY].isnull().all())
    tell(f"day {LATE_DAY} has no file yet, and reads as missing values: {missing}")


def let_files_come_late(place: Place, archive: Archive, engine: SparkEngine) -> None:
    """Deliver what was missing."""
    step("The missing day comes late, and the broken file whole")
    write_days(place.files, [LATE_DAY, 100])
    run(archive, engine)
    dataset = place.dataset()
    tell(f"{dataset.sizes['time']} days; the late one has its place:")
    tell(f"mean of day {LATE_DAY}: {mean_of(dataset, LATE_DAY):.2f} °C")
    step("Run once more: nothing is new, so nothing is written")
    run(archive, engine)


# -- a dataset with versions ----------------------------------------------------------------------


def look_back(place: Place) -> None:
    """Read a version from before."""
    step("Every run is a version, and no version is lost")
    for label, dataset in (
        ("main", place.dataset()),
        ("tag first-90-days", place.dataset(tag="first-90-days")),
    ):
        tell(f"{label + ':':18} {dataset.sizes['time']} days")


def let_two_writers_meet(place: Place) -> None:
    """Write arrays of our own beside the archive, on a branch, from two sessions."""
    step("Write beside the archive, on a branch; two writers meet")
    repo = place.open()
    repo.create_branch("study", repo.lookup_branch("main"))
    with repo.transaction("study", message="room for monthly means") as store:
        months = zarr.open_group(store).create_array(
            "monthly", shape=(12,), chunks=(1,), dtype="f8"
        )
        months[:] = 0.0
    january, february, also_january = (repo.writable_session("study") for _ in range(3))
    for writer, month, value in ((january, 0, 1.0), (february, 1, 2.0), (also_january, 0, 9.0)):
        zarr.open_array(writer.store, path="monthly")[month] = value
    january.commit("mean of January")
    try:
        february.commit("mean of February")
    except ice.ConflictError as error:
        tell(f"the second writer is told: {error}")
    february.commit("mean of February", rebase_with=ice.ConflictDetector())
    tell("it wrote another chunk, so a rebase is enough")
    try:
        also_january.commit("another January", rebase_with=ice.ConflictDetector())
    except ice.RebaseFailedError as error:
        conflict = error.conflicts[0]
        tell(f"the third wrote the same chunk: {conflict.conflict_type.name} at {conflict.path}")
    ours = ice.BasicConflictSolver(on_chunk_conflict=ice.VersionSelection.UseOurs)
    also_january.commit("another January", rebase_with=ours)
    tell("with a solver that says whose chunk stays, it commits")


def show_history(place: Place) -> None:
    """Print all versions."""
    step("History")
    for line in str(place.open().ancestry_graph(plain=True)).splitlines():
        tell(line)


def open_with_icechunk(place: Place) -> None:
    """Read the same repository with the icechunk package, where it is installed."""
    step("The same repository, opened by the icechunk package")
    if importlib.util.find_spec("icechunk") is None:
        tell("icechunk is not installed here; nothing else is needed to read the repository")
        return
    import icechunk  # noqa: PLC0415  shown only where it is installed

    icechunk.set_logs_filter("error")
    theirs = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(place.repository)),
        authorize_virtual_chunk_access={
            place.prefix: icechunk.credentials.LocalFileSystemAccess,
        },
    )
    store = theirs.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None).sst[10].load()
    is_equal = bool(found.equals(place.dataset().sst[10].load()))
    tell(f"icechunk {icechunk.__version__} reads the same values of day 10: {is_equal}")
    with theirs.transaction("study", message="mean of March, by icechunk") as store:
        zarr.open_array(store, path="monthly")[2] = 3.0
    newest = next(iter(place.open().ancestry(branch="study")))
    tell(f"and icestream reads what icechunk commits: {newest.message!r}")


# -- what the steps share -------------------------------------------------------------------------


def run(archive: Archive, engine: SparkEngine) -> None:
    """Run an archive, and print what it did."""
    report = run_archive(archive, engine=engine)
    for line in report.text().splitlines():
        tell(line)


def write_days(folder: Path, numbers: Iterable[int], warmer: float = 0.0) -> None:
    """Write files of days in the way of a producer: scaled, compressed, chunked."""
    folder.mkdir(exist_ok=True)
    packed = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 0.0, "_FillValue": -999}
    chunked = {"chunksizes": (1, 90, 180), "zlib": True, "complevel": 4, "shuffle": True}
    for number in numbers:
        day = FIRST_DAY + np.timedelta64(number, "D")
        noon = np.array([day + np.timedelta64(12, "h")], "M8[ns]")
        dataset = xr.Dataset(
            {"sst": (("time", "lat", "lon"), temperatures(number) + warmer, {"units": "degree_C"})},
            {
                "time": ("time", noon),
                "lat": ("lat", np.linspace(-89.5, 89.5, LATITUDES), {"units": "degrees_north"}),
                "lon": ("lon", np.linspace(0.5, 359.5, LONGITUDES), {"units": "degrees_east"}),
            },
            {"title": "sea surface temperature, daily means"},
        )
        hours = {"units": f"hours since {day} 00:00:00", "dtype": "float64"}
        dataset.to_netcdf(
            path_of(folder, number),
            engine="h5netcdf",
            encoding={"sst": packed | chunked, "time": hours},
        )


def path_of(folder: Path, number: int) -> Path:
    """Return the path of a day's file."""
    day = str(FIRST_DAY + np.timedelta64(number, "D")).replace("-", "")
    return folder / f"sst-{day}.nc"


def temperatures(number: int) -> np.ndarray:
    """Return a day that is warm near the equator; land has no temperature."""
    latitude = np.linspace(-89.5, 89.5, LATITUDES)[:, None]
    longitude = np.linspace(0.5, 359.5, LONGITUDES)[None, :]
    season = 4 * np.sin((number - 80) / 365 * 2 * np.pi) * np.sin(np.radians(latitude))
    eddies = np.sin(np.radians(8 * longitude + number)) * np.cos(np.radians(4 * latitude))
    degrees = 28 * np.cos(np.radians(latitude)) ** 2 + season + eddies
    is_land = np.cos(np.radians(3 * longitude)) + np.sin(np.radians(5 * latitude)) > COAST
    return np.where(is_land, np.nan, degrees)[None]


def mean_of(dataset: xr.Dataset, day: int) -> float:
    """Return the mean temperature of a day."""
    return float(dataset.sst[day].mean())


def moment(dataset: xr.Dataset, day: int) -> str:
    """Return the time of a day."""
    return str(dataset.time.values[day].astype("M8[h]"))


def step(title: str) -> None:
    """Print the title of a step."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{title}{plain}")


def tell(line: str) -> None:
    """Print a line of a step."""
    print(f"  {line}".rstrip())


if __name__ == "__main__":
    main()
