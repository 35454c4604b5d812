"""From files of a declared source to rows that are ready to be merged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger.active_sources import POLLING_SOURCE_NAME, Source, active_source
from icestream.ledger.blocks.events import AddData, SetPollingSource
from icestream.ledger.blocks.sources import MergeStrategyAppend, ReadStep
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.blocks.transforms import Transform
from icestream.ledger.chain.states import ChainState
from icestream.ledger.data.ingest_plan import IngestInput
from icestream.ledger.data.sources.fetching import fetch
from icestream.ledger.data.sources.preparing import prepare
from icestream.ledger.data.sources.readers import declared_schema, read_rows
from icestream.ledger.data.sources.states import FetchContext, is_uncacheable

type Preprocess = Callable[[pa.Table, Transform], pa.Table]
"""Runs the queries of a transform on a table that they know as `input`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """What the ingestion of files may do, and what it needs from outside."""

    preprocess: Preprocess | None = None
    """Runs SQL before merging; `icestream.spark.sql_preprocess(spark)` gives one."""
    allows_commands: bool = False
    """Whether sources may pipe files through commands: trust whoever declared them."""
    fetches_uncacheable: bool = False
    """Whether to fetch again what gives nothing to tell whether it has changed."""
    evolves_schema: bool = False
    """Let new columns that may be null extend the schema of the dataset."""
    folder: Path = field(default_factory=Path)
    """That relative paths of sources start from."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What `${{ env.NAME }}` in the texts of sources stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledInput:
    """What a polling source has next."""

    given: IngestInput
    has_more: bool
    """Whether there is another file already."""


def poll_source(
    state: ChainState, settings: IngestSettings, *, system_time: Timestamp
) -> PolledInput | None:
    """Fetch the next file of the polling source of a dataset; None if there is nothing new.

    Raises:
        NotFoundError: The dataset has no polling source.
        SourceError: The source cannot be read.
        InvalidInputError: The source is of a kind that is not supported, or needs what
            `settings` does not have.
    """
    source = state.polling_source
    if source is None:
        raise NotFoundError(
            "the dataset has no polling source: hand in a file or a table, or declare a source"
            " with SetPollingSource"
        )
    last = state.data_event if isinstance(state.data_event, AddData) else None
    if is_uncacheable(last) and not settings.fetches_uncacheable:
        return None
    previous = None if last is None else last.new_source_state
    if previous is not None and previous.source_name != POLLING_SOURCE_NAME:
        previous = None
    context = FetchContext(
        previous=previous,
        system_time=system_time,
        folder=settings.folder,
        variables=settings.variables,
    )
    fetched = fetch(source.fetch, context)
    if fetched is None:
        return None
    steps = source.prepare or ()
    data = prepare(fetched.data, steps, allows_commands=settings.allows_commands)
    given = _input(source, source.read, data, settings, name=fetched.name)
    return PolledInput(
        given=replace(given, event_time=fetched.event_time, source_state=fetched.source_state),
        has_more=fetched.has_more,
    )


def pushed_input(
    state: ChainState,
    data: bytes,
    settings: IngestSettings,
    *,
    source_name: str | None = None,
    read: ReadStep | None = None,
) -> IngestInput:
    """Return the rows of a file that is handed in.

    Args:
        state: Of the dataset.
        data: The file.
        settings: What its ingestion may do.
        source_name: Of the push source; may be left out where there is only one.
        read: The format of the file; that of the source if None.

    Raises:
        NotFoundError: There is no such source.
        SourceError: The file does not follow its format or schema.
        InvalidInputError: It is not known how to read the file, or the source needs what
            `settings` does not have.
    """
    source = active_source(state, source_name)
    if isinstance(source, SetPollingSource):
        raise InvalidInputError(
            "the dataset has a polling source, so that no files are handed in: ingest without a"
            " file"
        )
    step = read or (None if source is None else source.read)
    if step is None:
        raise InvalidInputError(
            "the dataset has no source that tells how to read files: give their format (on the"
            " command line --input-format), or declare a source with AddPushSource"
        )
    return _input(source, step, data, settings, name="the input")


def _input(
    source: Source | None, read: ReadStep, data: bytes, settings: IngestSettings, *, name: str
) -> IngestInput:
    table = read_rows(data, read, name=name)
    transform = None if source is None else source.preprocess
    if table is not None and transform is not None:
        table = _preprocessed(table, transform, settings)
    return IngestInput(
        table=table,
        strategy=MergeStrategyAppend() if source is None else source.merge,
        # who declares a schema or writes a query says what the columns are
        fits_columns=transform is None and declared_schema(read) is None,
        evolves_schema=settings.evolves_schema,
    )


def _preprocessed(table: pa.Table, transform: Transform, settings: IngestSettings) -> pa.Table:
    if settings.preprocess is None:
        raise InvalidInputError(
            f"the source preprocesses its data with SQL ({transform.engine}), and nothing is"
            " given that runs it: pass IngestSettings(preprocess=icestream.spark.sql_preprocess("
            "spark)), or on the command line --spark"
        )
    return settings.preprocess(table, transform)
