"""`icestream archive`: collections of foreign files become versions of a repository."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icestream.cli.archive_reports import PROBLEM_EXIT_CODE, reported
from icestream.cli.commands import (
    SET_ASIDE_EXIT_CODE,
    AllowHttp,
    Anonymous,
    Endpoint,
    Region,
    local_command,
    new_group,
)
from icestream.cli.declarations import (
    absolute_source,
    check_new,
    name_of_sources,
    read_declaration,
    source_places,
    write_declaration,
)
from icestream.cli.results import Document, Result, Stream
from icestream.errors import SourceError

if TYPE_CHECKING:
    from icestream.ingest.declaration.archives import Archive
    from icestream.parsers.scanned_files import ScannedFile

# What opens files and repositories is imported by the commands that do, as everywhere.

app = new_group("Turn archives of NetCDF, GRIB, TIFF ... files into versions, again and again.")

DRAFT_FILES = 8
"""So many files are looked at for a first declaration."""

Declaration = Annotated[
    Path,
    typer.Argument(
        exists=True, dir_okay=False, readable=True, help="YAML file that declares the archive."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark that does the work: local[*], spark://host:7077 ... By default fewer than 200"
        " new files are scanned in this process, more of them on local[*].",
    ),
]
Serial = Annotated[bool, typer.Option("--serial", help="Use no Spark, however many files.")]
Wait = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="How long to wait for another run to end."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, change nothing.")]


# -- before ---------------------------------------------------------------------------------------


@local_command(app, "init")
def init(  # noqa: PLR0913  each is a part of the command line
    sources: Annotated[
        list[str], typer.Argument(help="Folders, or URLs with *, ? and ** in them; quote those.")
    ],
    *,
    file: Annotated[
        Path | None, typer.Option(help="Where to write it; on standard output if left out.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the archive; that of the folder if left out.")
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of the target; ./NAME-repository if left out."),
    ] = None,
    region: Region = None,
    endpoint_url: Endpoint = None,
    anonymous: Anonymous = False,
    allow_http: AllowHttp = False,
) -> Result:
    """Write a commented declaration from a look at the first files.

    How these are reached becomes a part of it.
    """
    from icestream.ingest.declaration.archives import Archive, Target  # noqa: PLC0415  loads numpy
    from icestream.ingest.declaration.documents import raise_faults  # noqa: PLC0415  as above
    from icestream.ingest.drafts import draft_declaration  # noqa: PLC0415  as above

    check_new(file)
    given = tuple(map(absolute_source, sources))
    chosen = name or name_of_sources(given)
    target = absolute_source(repository or f"{chosen}-repository")
    options = {
        "region": region,
        "endpoint_url": endpoint_url,
        "anonymous": anonymous,
        "allow_http": allow_http,
    }
    access = source_places(given, {key: value for key, value in options.items() if value})
    archive = Archive(name=chosen, sources=given, access=access, target=Target(repository=target))
    raise_faults(list(archive.faults()), name=chosen)
    text = draft_declaration(chosen, given, target, _first_files(archive), access=access)
    if file is None:
        return Document(text, {"name": chosen, "declaration": text})
    write_declaration(file, text)
    told = f"wrote {file}; edit it, then `icestream archive scan {file}`"
    return Document(told, {"name": chosen, "file": str(file), "declaration": text})


@local_command(app, "scan")
def scan(
    declaration: Declaration,
    *,
    sample: Annotated[
        int, typer.Option(min=1, metavar="FILES", help="Scan at most so many, spread over all.")
    ] = 1000,
) -> Result:
    """Report what a run would find, and what it would take; nothing is written.

    Exit code 2 if files do not make one dataset, 7 if some would be set aside.
    """
    from icestream.cli.progress import shown_progress  # noqa: PLC0415  loads rich
    from icestream.ingest.scanning_ahead import scan_archive  # noqa: PLC0415  loads pyarrow

    archive = read_declaration(declaration)
    with shown_progress() as progress:
        report = scan_archive(archive, sample=sample, progress=progress)
    code = PROBLEM_EXIT_CODE if report.problems else SET_ASIDE_EXIT_CODE
    return Document(report.text(), report.tree(), 0 if report.is_clean else code)


# -- runs -----------------------------------------------------------------------------------------


@local_command(app, "run")
def run(
    declaration: Declaration,
    *,
    master: Master = None,
    serial: Serial = False,
    wait: Wait = 0,
    include_undone: Annotated[
        bool, typer.Option("--include-undone", help="Take in again what `undo` took back.")
    ] = False,
    dry_run: DryRun = False,
) -> Result:
    """Ingest what is new or changed, in one commit; nothing new writes nothing.

    Exit code 7 if files were set aside; all others are in.
    """
    from icestream.cli.archive_runs import RunSettings, preview, run_once  # noqa: PLC0415  loads zarr

    settings = RunSettings(
        master=master, serial=serial, wait_seconds=wait, include_undone=include_undone
    )
    if dry_run:
        return preview(declaration, settings)
    return reported(run_once(declaration, settings))


@local_command(app, "status")
def status(declaration: Declaration) -> Result:
    """Show runs, how fresh the repository is, and files that are not in it, with reasons.

    Exit code 7 if files are set aside, 3 if there was no run yet.
    """
    from icestream.ingest.statuses import archive_status  # noqa: PLC0415  loads zarr

    found = archive_status(read_declaration(declaration))
    return Document(found.text(), found.tree(), SET_ASIDE_EXIT_CODE if found.has_faults else 0)


@local_command(app, "undo")
def undo(
    declaration: Declaration,
    run: Annotated[str, typer.Argument(help="Number, snapshot or block of the run.")],
    *,
    master: Master = None,
    serial: Serial = False,
    wait: Wait = 0,
    dry_run: DryRun = False,
) -> Result:
    """Take back what one run did, in repository and ledger together, with a new commit.

    Further runs leave its files out until they change, or --include-undone is given.
    """
    from icestream.cli.archive_runs import RunSettings, undo_once  # noqa: PLC0415  loads zarr

    settings = RunSettings(master=master, serial=serial, wait_seconds=wait)
    return reported(undo_once(declaration, run, settings, dry_run=dry_run))


@local_command(app, "recover")
def recover(
    declaration: Declaration,
    *,
    follow_branch: Annotated[
        bool,
        typer.Option(
            "--follow-branch",
            help="Let the ledger forget runs that the branch lacks since it was moved back.",
        ),
    ] = False,
    wait: Wait = 0,
) -> Result:
    """Finish what a run left that was cut off; every run begins with that by itself.

    With --follow-branch, the next run ingests the files of forgotten runs again.
    """
    from icestream.ingest.recovering import recover_archive  # noqa: PLC0415  loads zarr

    archive = read_declaration(declaration)
    report = recover_archive(archive, follows_branch=follow_branch, wait_seconds=wait)
    return Document(report.text(), report.tree())


@local_command(app, "watch")
def watch(
    declaration: Declaration,
    *,
    interval: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="From the start of a run to the next.")
    ],
    runs: Annotated[
        int | None, typer.Option(min=1, help="End after so many runs, failed ones too.")
    ] = None,
    master: Master = None,
    serial: Serial = False,
    wait: Wait = 0,
) -> Result:
    """Run again and again, and show a report for each run; failures are tried again.

    Ctrl-C or SIGTERM ends it after the run that is under way, a second one at once. The ledger
    knows what is done: whenever it is started anew, it goes on.
    """
    from icestream.cli.archive_runs import RunSettings, run_again_and_again  # noqa: PLC0415  loads zarr

    read_declaration(declaration)  # a wrong one is told at once
    settings = RunSettings(master=master, serial=serial, wait_seconds=wait)
    documents = run_again_and_again(declaration, settings, interval=interval, max_runs=runs)
    return Stream(documents)


# -- inside ---------------------------------------------------------------------------------------


def _first_files(archive: "Archive") -> "list[ScannedFile]":
    """Return the first files that can be read.

    Raises:
        SourceError: None of them can.
    """
    from icestream.cli.progress import shown_progress  # noqa: PLC0415  loads rich
    from icestream.ingest.engines.scanning import ScanFailure  # noqa: PLC0415  loads pyarrow
    from icestream.ingest.scanning_ahead import look_at  # noqa: PLC0415  as above

    with shown_progress() as progress:
        found = look_at(archive, num_files=DRAFT_FILES, progress=progress)
    files = [file for file in found if not isinstance(file, ScanFailure)]
    failures = [file for file in found if isinstance(file, ScanFailure)]
    if not files:
        raise SourceError(f"none of the first files can be read: {failures[0].reason}")
    return files
