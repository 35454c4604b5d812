"""`icestream dataset pull`, and the replay of `icestream dataset verify`: queries on Spark."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, exit_code, new_group
from icestream.cli.dataset_reports import verified
from icestream.cli.results import Document, Result
from icestream.errors import AccessError, InvalidInputError

if TYPE_CHECKING:
    from icestream.ledger.chain.planning import UpToDate
    from icestream.ledger.chain.verification import VerificationReport
    from icestream.ledger.data_writing import AddedData
    from icestream.ledger.dataset import Dataset
    from icestream.ledger.workspace import Workspace
    from icestream.spark.transforms.lazy_engine import LazySqlEngine
    from icestream.spark.transforms.pulling import Advance, Pulled

# What opens datasets is imported by the command: `icestream --help` must be quick.

app = new_group("Bring datasets up to date.")

_CONSENT = re.compile(
    r"open the repository with authorize_virtual_chunk_access=\{(['\"])(.+?)\1: None\}[^(]*\b"
)
"""With the other ways that there are in Python, up to what was being read."""

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where Spark runs, if not in this process: spark://host:7077"),
]
Authorize = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PREFIX",
        help="Where virtual chunks of arrays may be read from: s3://bucket/; may be repeated.",
    ),
]
StateFolder = Annotated[
    str | None,
    typer.Option(metavar="DIRECTORY", help="For the state of streams; executors must reach it."),
]


@command(app, "pull", of="workspace of datasets")
def pull(  # noqa: PLR0913  each is a part of the command line
    target: Target,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Names or ids of datasets.")
    ] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Pull all datasets of the workspace.")
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Pull what the datasets read first.")
    ] = False,
    recompute: Annotated[
        bool,
        typer.Option("--recompute", help="Make the named derived arrays anew, all chunks of them."),
    ] = False,
    authorize: Authorize = None,
    master: Master = None,
    state_folder: StateFolder = None,
) -> Result:
    """Bring datasets up to date, inputs first: poll sources, run transforms over what is new."""
    from icestream.ledger.workspace import Workspace  # noqa: PLC0415  loads pyarrow

    engine = sql_engine(master, state_folder)
    from icestream.ingest.array_derivation.ledger_side import ARRAY_ENGINE  # noqa: PLC0415  as above
    from icestream.spark import ArchivePlaces  # noqa: PLC0415  loads pyspark
    from icestream.spark.transforms.pulling import Pulling  # noqa: PLC0415  as above

    workspace = Workspace(target.storage())
    if every == bool(names):
        raise InvalidInputError("name the datasets to pull, or pull --all")
    if recompute:
        _require_arrays(workspace, names)
    wanted = names or [str(entry.dataset_id) for entry in workspace.datasets()]
    others = {ARRAY_ENGINE: _arrays(workspace, master, authorize, recompute=recompute)}
    places = ArchivePlaces(authorize=tuple(authorize or ()))
    pulling = Pulling(workspace, engine, poll=_poll, others=others, places=places)
    return _report(list(pulling.pull(wanted, recursive=recursive)))


def _require_arrays(workspace: "Workspace", names: Sequence[str] | None) -> None:
    from icestream.ingest.array_derivation.ledger_side import is_derived_array  # noqa: PLC0415  loads pyarrow

    if not names:
        raise InvalidInputError("name the derived arrays to recompute, in place of --all")
    for name in names:
        if not is_derived_array(workspace.open(name)):
            raise InvalidInputError(
                f"{name} is no derived array, and only those are computed again by --recompute; "
                "leave the option out"
            )


def _arrays(
    workspace: "Workspace",
    master: str | None,
    authorize: Sequence[str] | None,
    *,
    recompute: bool,
) -> "Advance":
    """Return what brings derived arrays up to date."""
    from icestream.spark import ArrayPlaces, session  # noqa: PLC0415  loads pyspark
    from icestream.spark.derived_arrays.pulling import advance_with  # noqa: PLC0415  as above

    places = ArrayPlaces(authorize=tuple(authorize or ()))
    advance = advance_with(workspace, lambda: session(master=master), places, recompute=recompute)

    def advance_or_name_option(dataset: "Dataset") -> "tuple[AddedData, ...] | UpToDate":
        with _naming_option():
            return advance(dataset)

    return advance_or_name_option


@contextmanager
def _naming_option() -> Iterator[None]:
    """Let errors about consent name the option of the command, not an argument of Python."""
    try:
        yield
    except AccessError as error:
        told = _CONSENT.sub(r"give the option --authorize \2", error.message)
        raise AccessError(told, kind=error.kind) from error


def sql_engine(master: str | None, state_folder: str | None = None) -> "LazySqlEngine":
    """Return an engine that starts Spark when it is needed.

    Raises:
        InvalidInputError: There is no Spark.
    """
    try:
        from icestream.spark import session  # noqa: PLC0415  an extra
        from icestream.spark.transforms.lazy_engine import LazySqlEngine  # noqa: PLC0415  as above
    except ModuleNotFoundError as error:
        raise InvalidInputError("Spark is not installed: install icestream[spark]") from error
    return LazySqlEngine(lambda: session(master=master), state_folder)


def replayed(
    workspace: "Workspace",
    name: str,
    report: "VerificationReport",
    master: str | None,
    *,
    authorize: Sequence[str] | None = None,
) -> Document:
    """Return what a verification and a replay of all transactions found.

    A chain that is damaged is not replayed.

    Raises:
        InvalidInputError: The dataset is in no workspace, or there is no Spark.
    """
    if name == ".":
        raise InvalidInputError("a replay reads the inputs: give the address of their workspace")
    if any(problem.object_key.startswith("blocks/") for problem in report.problems):
        return verified(report)
    engine = sql_engine(master)
    from icestream.ingest.array_derivation.ledger_side import is_derived_array  # noqa: PLC0415  as above
    from icestream.spark import ArchivePlaces  # noqa: PLC0415  as above
    from icestream.spark.transforms.replaying import consumed_ids, replay  # noqa: PLC0415  as above

    dataset = workspace.open(name)
    if is_derived_array(dataset):
        return _replayed_array(dataset, report, master, authorize)
    consumed = consumed_ids(dataset)
    inputs = [
        workspace.open(entry.dataset_id)
        for entry in workspace.datasets()
        if entry.dataset_id in consumed
    ]
    places = ArchivePlaces(authorize=tuple(authorize or ()))
    found = replay(dataset, inputs, engine, places=places)
    return _with_counts(
        verified(report.with_problems(found.problems)), found.replayed, found.skipped
    )


def _replayed_array(
    dataset: "Dataset",
    report: "VerificationReport",
    master: str | None,
    authorize: Sequence[str] | None,
) -> Document:
    from icestream.spark import ArrayPlaces, session, verify_derived_array  # noqa: PLC0415  loads pyspark

    places = ArrayPlaces(authorize=tuple(authorize or ()))
    with _naming_option():
        found = verify_derived_array(dataset, lambda: session(master=master), places=places)
    return _with_counts(
        verified(report.with_problems(found.problems)), found.num_blocks, len(found.skipped)
    )


def _with_counts(shown: Document, replayed: int, skipped: int) -> Document:
    counts = {"replayed": replayed, "skipped": skipped}
    line = f"{replayed} transactions replayed, {skipped} skipped\n"
    return replace(shown, text=line + shown.text, data={**shown.data, **counts})


def _poll(dataset: "Dataset") -> "tuple[AddedData, ...] | UpToDate":
    from icestream.ledger.chain.planning import UpToDate  # noqa: PLC0415  loads pyarrow
    from icestream.ledger.ingestion import IngestSettings  # noqa: PLC0415  as above
    from icestream.spark import session, sql_preprocess  # noqa: PLC0415  as above

    source = dataset.state.polling_source
    needs_spark = source is not None and source.preprocess is not None
    settings = IngestSettings(
        preprocess=sql_preprocess(session()) if needs_spark else None, variables=os.environ
    )
    added = [each for each in dataset.ingest(settings) if not each.is_up_to_date]
    return tuple(added) or UpToDate("its source has nothing new")


def _report(pulled: "Sequence[Pulled]") -> Document:
    """Return what became of datasets; the exit code is that of the first that failed."""
    failures = [each.error for each in pulled if each.error is not None]
    if len(pulled) == 1 and failures:
        raise failures[0]
    lines = [f"{each.name}: {_told(each)}" for each in pulled]
    data = [_values(each) for each in pulled]
    return Document("\n".join(lines), data, exit_code(failures[0]) if failures else 0)


def _told(pulled: "Pulled") -> str:
    if pulled.error is not None:
        return f"failed: {pulled.error}"
    if not pulled.added:
        return f"up to date, {pulled.reason}"
    count = pulled.record_count
    return f"updated, {count} record{'' if count == 1 else 's'}, head {pulled.dataset.head}"


def _values(pulled: "Pulled") -> dict[str, Any]:
    error = pulled.error
    return {
        "name": pulled.name,
        "id": str(pulled.dataset.dataset_id),
        "status": pulled.status,
        "transactions": len(pulled.added),
        "records": pulled.record_count,
        "head": str(pulled.dataset.head),
        "reason": str(error) if error is not None else pulled.reason,
    }
