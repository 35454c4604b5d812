"""A short tour: create, write, commit, branch, conflict, rebase, read back, open with icechunk."""

import importlib.util
import sys
import tempfile

import numpy as np
import zarr

import icestream as ice

MONTHS, LATITUDES, LONGITUDES = 12, 45, 90


def main() -> None:
    """Run the tour in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="icestream-demo-") as directory:
        repo = create(directory)
        first = write_first_version(repo)
        work_on_a_branch(repo, first)
        let_two_writers_meet(repo)
        read_an_older_version(repo, first)
        show_history(repo)
        open_with_icechunk(directory)


def create(directory: str) -> ice.Repository:
    """Create a repository; a bucket works the same way with `s3_storage(...)`."""
    step("Create a repository")
    repo = ice.Repository.create(ice.local_filesystem_storage(directory))
    tell(f"{repo}")
    return repo


def write_first_version(repo: ice.Repository) -> str:
    """Write a group with an array through zarr, and make it a version."""
    step("Write an array through zarr, commit it")
    session = repo.writable_session("main")
    group = zarr.create_group(session.store, attributes={"title": "a small ocean"})
    temperature = group.create_array(
        "temperature",
        shape=(MONTHS, LATITUDES, LONGITUDES),
        chunks=(1, LATITUDES, LONGITUDES),
        dtype="float32",
        dimension_names=("month", "latitude", "longitude"),
    )
    temperature[:] = seasons()
    for line in str(session.status()).splitlines():
        tell(line)
    snapshot_id = session.commit("first year", metadata={"by": "demo"})
    tell(f"committed as snapshot {snapshot_id}")
    repo.create_tag("v1", snapshot_id)
    tell("tagged v1")
    return snapshot_id


def work_on_a_branch(repo: ice.Repository, start: str) -> None:
    """Change data where nobody else sees it."""
    step("Try something on a branch; main does not change")
    repo.create_branch("experiment", start)
    with repo.transaction("experiment", message="two degrees warmer") as store:
        array = zarr.open_array(store, path="temperature")
        array[:] = np.asarray(array[:]) + 2
    tell(f"mean on experiment: {mean_of(repo, 'experiment'):.2f} °C")
    tell(f"mean on main:       {mean_of(repo, 'main'):.2f} °C")


def let_two_writers_meet(repo: ice.Repository) -> None:
    """Commit from two sessions that began at the same version."""
    step("Two writers, one branch")
    january, december, also_january = (repo.writable_session("main") for _ in range(3))
    zarr.open_array(january.store, path="temperature")[0] = 1.0
    zarr.open_array(december.store, path="temperature")[11] = 12.0
    zarr.open_array(also_january.store, path="temperature")[0] = 99.0

    january.commit("mend January")
    tell("the first writer changed January and committed")
    try:
        december.commit("mend December")
    except ice.ConflictError as error:
        tell(f"the second changed December: {error}")
    december.commit("mend December", rebase_with=ice.ConflictDetector())
    tell("nobody else touched December, so a rebase is enough: committed")
    try:
        also_january.commit("mend January again", rebase_with=ice.ConflictDetector())
    except ice.RebaseFailedError as error:
        conflict = error.conflicts[0]
        tell(f"the third changed January too: {conflict.conflict_type.name} at {conflict.path}")
    ours = ice.BasicConflictSolver(on_chunk_conflict=ice.VersionSelection.UseOurs)
    also_january.commit("mend January again", rebase_with=ours)
    tell("with a solver that says whose chunk stays, it commits")


def read_an_older_version(repo: ice.Repository, first: str) -> None:
    """Show that nothing that was committed is lost."""
    step("Read an older version")
    back_then = repo.lookup_snapshot(first).written_at
    for label, session in (
        ("by branch", repo.readonly_session("main")),
        ("by tag", repo.readonly_session(tag="v1")),
        ("by snapshot", repo.readonly_session(snapshot_id=first)),
        ("by time", repo.readonly_session("main", as_of=back_then)),
    ):
        january = np.asarray(zarr.open_array(session.store, path="temperature", mode="r")[0])
        tell(f"{label + ':':13}mean of January {january.mean():6.2f} °C")


def show_history(repo: ice.Repository) -> None:
    """Print all versions, and what changed since the first."""
    step("History")
    for line in str(repo.ancestry_graph(plain=True)).splitlines():
        tell(line)
    tell("")
    tell("from v1 to main:")
    for line in str(repo.diff(from_tag="v1", to_branch="main")).splitlines():
        tell(f"  {line}")


def open_with_icechunk(directory: str) -> None:
    """Read the same directory with the icechunk package, where it is installed."""
    step("The same repository, opened by the icechunk package")
    if importlib.util.find_spec("icechunk") is None:
        tell("icechunk is not installed here; nothing else is needed to read the repository")
        return
    import icechunk  # noqa: PLC0415  shown only where it is installed

    icechunk.set_logs_filter("error")
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(directory))
    store = theirs.readonly_session("main").store
    january = np.asarray(zarr.open_array(store, path="temperature", mode="r")[0])
    tell(f"icechunk {icechunk.__version__} reads January: {january.mean():.2f} °C")
    with theirs.transaction("main", message="mend February, by icechunk") as store:
        zarr.open_array(store, path="temperature")[1] = 2.0
    ours = ice.Repository.open(ice.local_filesystem_storage(directory))
    newest = next(iter(ours.ancestry(branch="main")))
    tell(f"and icestream reads what icechunk commits: {newest.message!r}")


def seasons() -> np.ndarray:
    """Return a year of temperatures that are warm near the equator and in July."""
    month = np.arange(MONTHS)[:, None, None]
    latitude = np.linspace(-88, 88, LATITUDES)[None, :, None]
    swing = np.cos((month - 6) / 6 * np.pi) * np.sin(np.radians(latitude)) * 8
    degrees = 28 * np.cos(np.radians(latitude)) + swing
    return np.broadcast_to(degrees, (MONTHS, LATITUDES, LONGITUDES)).astype("float32")


def mean_of(repo: ice.Repository, branch: str) -> float:
    """Return the mean of the array on a branch."""
    array = zarr.open_array(repo.readonly_session(branch).store, path="temperature", mode="r")
    return float(np.asarray(array[:]).mean())


def step(title: str) -> None:
    """Print the title of a step."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{title}{plain}")


def tell(line: str) -> None:
    """Print a line of a step."""
    print(f"  {line}".rstrip())


if __name__ == "__main__":
    main()
