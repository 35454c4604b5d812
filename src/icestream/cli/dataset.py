"""`icestream dataset`: datasets of the ledger, by name in a workspace."""

import os
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.dataset_reports import (
    LISTED,
    LOGGED,
    UPDATED,
    added_values,
    blocks_document,
    counted,
    described,
    listed_row,
    logged_row,
    records_table,
    rewritten_values,
    updated_row,
    verified,
)
from icestream.cli.pull import Authorize, Master, replayed
from icestream.cli.results import Done, Record, Result, Table
from icestream.cli.versions import parse_moment
from icestream.errors import FormatError, IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from icestream.ledger.block_names import BlockName
    from icestream.ledger.blocks.dataset_ids import DatasetId
    from icestream.ledger.blocks.sources import ReadStep
    from icestream.ledger.chain.block_store import BlockStore
    from icestream.ledger.dataset import Dataset
    from icestream.ledger.ingestion import IngestSettings
    from icestream.ledger.workspace import Workspace
    from icestream.storage.protocol import Storage

# What opens datasets is imported by the commands that do: `icestream --help` must be quick.

app = new_group("Create, fill, read and verify datasets with a recorded history.")

WORKSPACE = "workspace of datasets"
HERE = "."
_TIME_HELP = "a date such as 2026-01-31T12:00:00Z, or an age such as 12h, 30d or 8w."

Name = Annotated[
    str, typer.Argument(help="Name or id of the dataset; . is the one at the address itself.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, change nothing.")]


class InputFormat(StrEnum):
    """What a file that is handed in holds."""

    csv = "csv"
    json = "json"
    ndjson = "ndjson"
    parquet = "parquet"


class Allowed(StrEnum):
    """What an ingestion does only on demand."""

    commands = "commands"
    new_columns = "new-columns"
    uncacheable = "uncacheable"


# -- what is there --------------------------------------------------------------------------------


@command(app, "create", of=WORKSPACE)
def create(
    target: Target,
    definition: Annotated[
        typer.FileBinaryRead | None,
        typer.Argument(help="YAML file of DatasetSnapshot documents; - is standard input."),
    ] = None,
    *,
    name: Annotated[
        str | None, typer.Option(help="Name of a plain root dataset, in place of a file.")
    ] = None,
) -> Result:
    """Create datasets from their definitions, those that others read first."""
    from icestream.ledger.blocks.documents import read_snapshots  # noqa: PLC0415  loads yaml

    workspace = _workspace(target)
    if definition is not None and name is None:
        place = getattr(definition, "name", "standard input")
        created = workspace.create_all(read_snapshots(definition.read(), name=place))
    elif name is not None and definition is None:
        created = [workspace.create(name)]
    else:
        raise InvalidInputError("give a file with definitions, or --name and no file")
    return Table(LISTED, [listed_row(str(dataset.alias), dataset) for dataset in created])


@command(app, "update", of=WORKSPACE)
def update(
    target: Target,
    definition: Annotated[
        typer.FileBinaryRead,
        typer.Argument(help="YAML file of DatasetSnapshot documents; - is standard input."),
    ],
) -> Result:
    """Append to datasets what their changed definitions say anew, for example another query."""
    from icestream.ledger.blocks.documents import read_snapshots  # noqa: PLC0415  loads yaml
    from icestream.ledger.redefining import update_datasets  # noqa: PLC0415  loads arrow

    place = getattr(definition, "name", "standard input")
    done = update_datasets(_workspace(target), read_snapshots(definition.read(), name=place))
    return Table(UPDATED, [updated_row(each) for each in done])


@command(app, "list", of=WORKSPACE)
def list_datasets(
    target: Target,
    pattern: Annotated[
        str | None, typer.Argument(help="Only these names; % stands for any characters.")
    ] = None,
) -> Result:
    """List the datasets of a workspace."""
    workspace = _workspace(target)
    entries = workspace.datasets(pattern)
    rows = [listed_row(str(entry.alias), workspace.open(entry.dataset_id)) for entry in entries]
    return Table(LISTED, rows)


@command(app, "show", of=WORKSPACE)
def show(target: Target, name: Name) -> Result:
    """Show what a dataset is: its columns, sources, inputs, and how far it is."""
    return Record(described(_open(target, name)))


@command(app, "log", of=WORKSPACE)
def log(
    target: Target,
    name: Name,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show at most this many.")
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Show the blocks in full, as YAML or JSON.")
    ] = False,
) -> Result:
    """Show the blocks of a dataset, newest first."""
    blocks = list(islice(_open(target, name).blocks(), limit))
    if events:
        return blocks_document(blocks)
    return Table(LOGGED, [logged_row(block) for block in blocks])


@command(app, "tail", of=WORKSPACE)
def tail(
    target: Target,
    name: Name,
    *,
    count: Annotated[int, typer.Option("--records", "-n", min=0, help="How many to show.")] = 10,
    as_of: Annotated[
        str | None, typer.Option(metavar="BLOCK", help="As the dataset was at this block.")
    ] = None,
) -> Result:
    """Show the last records of a dataset."""
    dataset = _open(target, name)
    version = dataset.current if as_of is None else dataset.as_of(_block_name(as_of))
    return records_table(version.tail(count))


# -- ingestion ------------------------------------------------------------------------------------


@command(app, "ingest", of=WORKSPACE)
def ingest(  # noqa: PLR0913  each is a part of the command line
    target: Target,
    name: Name,
    file: Annotated[
        typer.FileBinaryRead | None,
        typer.Argument(help="File to hand in, - is standard input; without, a source is polled."),
    ] = None,
    *,
    source_name: Annotated[
        str | None, typer.Option(help="Push source that the file is of, if there are several.")
    ] = None,
    input_format: Annotated[
        InputFormat | None,
        typer.Option(
            metavar="csv|json|ndjson|parquet", help="What the file is, if its source does not say."
        ),
    ] = None,
    event_time: Annotated[
        datetime | None,
        typer.Option(
            parser=parse_moment, metavar="TIME", help=f"For rows that have none: {_TIME_HELP}"
        ),
    ] = None,
    allow: Annotated[
        list[Allowed] | None,
        typer.Option(
            metavar="commands|new-columns|uncacheable",
            help="Let sources run their commands, let new columns extend the schema, fetch what"
            " does not tell whether it has changed; may be given several times.",
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run the SQL of sources on a local Spark.")
    ] = False,
) -> Result:
    """Add a file to a root dataset, or what its polling source has to offer."""
    dataset = _open(target, name)
    settings = _settings(set(allow or ()), spark=spark)
    if file is None:
        _require_no_file_options(source_name, input_format, event_time)
        return Record(added_values(dataset, dataset.ingest(settings)))
    added = dataset.ingest_file(
        file.read(),
        source_name=source_name,
        read=None if input_format is None else _read_step(input_format),
        event_time=event_time,
        settings=settings,
    )
    return Record(added_values(dataset, [added]))


@command(app, "set-watermark", of=WORKSPACE)
def set_watermark(
    target: Target,
    name: Name,
    time: Annotated[
        datetime, typer.Argument(parser=parse_moment, metavar="TIME", help=_TIME_HELP.capitalize())
    ],
) -> Result:
    """Raise the watermark of a root dataset: no more data before this event time are expected."""
    dataset = _open(target, name)
    return Record(added_values(dataset, [dataset.add_data(None, watermark=time)]))


# -- care -----------------------------------------------------------------------------------------


@command(app, "verify", of=WORKSPACE)
def verify(  # noqa: PLR0913  each is a part of the command line
    target: Target,
    name: Name,
    *,
    skip_content: Annotated[
        bool,
        typer.Option("--skip-content", help="Compare files with their hashes, look not into them."),
    ] = False,
    skip_inputs: Annotated[
        bool,
        typer.Option("--skip-inputs", help="Do not look whether inputs have what was consumed."),
    ] = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Run all transactions again on Spark, and compare."),
    ] = False,
    authorize: Authorize = None,
    master: Master = None,
) -> Result:
    """Verify blocks, rules, slices and checkpoints; exit code 6 if something is wrong."""
    from icestream.ledger.verifying import verify_dataset  # noqa: PLC0415  loads pyarrow

    inputs = {} if skip_inputs else _inputs(target, name)
    storage = _dataset_storage(target, name)
    report = verify_dataset(storage, checks_content=not skip_content, inputs=inputs)
    if not replay:
        return verified(report)
    return replayed(_workspace(target), name, report, master, authorize=authorize)


@command(app, "reset", of=WORKSPACE)
def reset(
    target: Target,
    name: Name,
    block: Annotated[
        str, typer.Argument(help="Hash of the block, the end of its hash, or its number.")
    ],
    *,
    dry_run: DryRun = False,
) -> Result:
    """Move a dataset back to an earlier block; datasets that read on from it have to start over."""
    dataset = _open(target, name)
    found = dataset.find_block(_block_name(block))
    if dry_run:
        dropped = dataset.state.head.sequence_number - found.sequence_number
        return Done(
            f"{counted(dropped, 'block')} would be dropped; nothing was changed",
            {"head": str(dataset.head), "new_head": str(found.block_hash), "dropped": dropped},
        )
    return Record(rewritten_values(dataset.reset(found.block_hash)))


@command(app, "compact", of=WORKSPACE)
def compact(
    target: Target,
    name: Name,
    *,
    max_slice_records: Annotated[
        int, typer.Option(min=1, help="Records that a slice has at most.")
    ] = 10_000,
    max_slice_bytes: Annotated[
        int, typer.Option(min=1, help="Bytes that a slice has at most.")
    ] = 300_000_000,
    keep_metadata_only: Annotated[
        bool,
        typer.Option(
            "--keep-metadata-only", help="Drop all data, so that a transform starts over."
        ),
    ] = False,
) -> Result:
    """Merge small slices into fewer; datasets that read this one have to start over."""
    from icestream.ledger.chain.rewriting import CompactionLimits  # noqa: PLC0415  as above

    dataset = _open(target, name)
    if keep_metadata_only:
        return Record(rewritten_values(dataset.keep_metadata_only()))
    limits = CompactionLimits(max_slice_bytes=max_slice_bytes, max_slice_records=max_slice_records)
    return Record(rewritten_values(dataset.compact(limits)))


@command(app, "gc", of=WORKSPACE)
def collect(
    target: Target,
    name: Annotated[
        str | None, typer.Argument(help="Only this dataset; . is the one at the address itself.")
    ] = None,
    *,
    older_than: Annotated[
        datetime,
        typer.Option(parser=parse_moment, metavar="TIME", help=_TIME_HELP.capitalize()),
    ],
    dry_run: DryRun = False,
) -> Result:
    """Delete what no block leads to, if it is old enough: remains of broken or dropped commits.

    Writers that are under way must be younger than the time given. Without a name, all datasets
    are gone through, and remains of datasets that never got a name are deleted too.
    """
    workspace = _workspace(target)
    names = [name] if name else [str(each.dataset_id) for each in workspace.datasets()]
    datasets = [_open(target, each) for each in names]
    found = [info for dataset in datasets for info in dataset.find_garbage(older_than).objects]
    found += [] if name else workspace.find_abandoned(older_than)
    values = {
        "objects": len(found),
        "bytes": sum(info.size_bytes for info in found),
        "deleted": 0,
    }
    if not dry_run:
        deleted = [dataset.collect_garbage(older_than).deleted for dataset in datasets]
        deleted += [] if name else [workspace.delete_abandoned(older_than).deleted]
        values["deleted"] = sum(deleted)
    return Record(values)


# -- inside ---------------------------------------------------------------------------------------


def _workspace(target: Target) -> "Workspace":
    from icestream.ledger.workspace import Workspace  # noqa: PLC0415  loads pyarrow

    return Workspace(target.storage())


def _dataset_storage(target: Target, name: str) -> "Storage":
    if name == HERE:
        return target.storage()
    workspace = _workspace(target)
    return workspace.dataset_storage(workspace.find(name))


def _open(target: Target, name: str) -> "Dataset":
    from icestream.ledger.dataset import Dataset  # noqa: PLC0415  loads pyarrow

    return Dataset.open(_dataset_storage(target, name))


def _inputs(target: Target, name: str) -> "dict[DatasetId, BlockStore]":
    """Return the inputs that are there; none of a dataset that is too damaged to be opened."""
    if name == HERE:
        return {}
    try:
        found = _workspace(target).inputs_of(_open(target, name), missing_ok=True)
    except (IntegrityError, FormatError):
        return {}
    return {given.dataset_id: given.chain.store for given in found}


def _block_name(text: str) -> "BlockName":
    """Return the number of a block, or the text; hashes are much longer than numbers."""
    is_number = text.isdecimal() and len(text) < 8  # noqa: PLR2004  as long as a short hash
    return int(text) if is_number else text


def _settings(allowed: set[Allowed], *, spark: bool) -> "IngestSettings":
    from icestream.ledger.ingestion import IngestSettings  # noqa: PLC0415  loads pyarrow

    preprocess = None
    if spark:
        from icestream.spark import session, sql_preprocess  # noqa: PLC0415  loads pyspark

        preprocess = sql_preprocess(session())
    return IngestSettings(
        preprocess=preprocess,
        allows_commands=Allowed.commands in allowed,
        fetches_uncacheable=Allowed.uncacheable in allowed,
        evolves_schema=Allowed.new_columns in allowed,
        variables=os.environ,
    )


def _read_step(input_format: InputFormat) -> "ReadStep":
    from icestream.ledger.blocks import sources  # noqa: PLC0415  as above

    match input_format:
        case InputFormat.csv:
            return sources.ReadStepCsv(header=True, infer_schema=True)
        case InputFormat.json:
            return sources.ReadStepJson()
        case InputFormat.ndjson:
            return sources.ReadStepNdJson()
        case InputFormat.parquet:
            return sources.ReadStepParquet()


def _require_no_file_options(*options: object) -> None:
    if any(option is not None for option in options):
        raise InvalidInputError(
            "--source-name, --input-format and --event-time are about a file: name the file, or"
            " leave them out to poll the source"
        )
