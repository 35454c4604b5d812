"""Where the data of a root dataset come from, and how they become rows."""

from dataclasses import dataclass
from enum import StrEnum

from icestream.ledger.blocks.data_schemas import DataSchema

type FetchStep = (
    FetchStepUrl | FetchStepFilesGlob | FetchStepContainer | FetchStepMqtt | FetchStepEthereumLogs
)
type EventTimeSource = (
    EventTimeSourceFromMetadata | EventTimeSourceFromPath | EventTimeSourceFromSystemTime
)
type SourceCaching = SourceCachingForever
type PrepStep = PrepStepDecompress | PrepStepPipe
type ReadStep = (
    ReadStepCsv
    | ReadStepGeoJson
    | ReadStepEsriShapefile
    | ReadStepParquet
    | ReadStepJson
    | ReadStepNdJson
    | ReadStepNdGeoJson
)
type MergeStrategy = (
    MergeStrategyAppend
    | MergeStrategyLedger
    | MergeStrategySnapshot
    | MergeStrategyChangelogStream
    | MergeStrategyUpsertStream
)


class SourceOrdering(StrEnum):
    """The order in which files are ingested."""

    BY_EVENT_TIME = "ByEventTime"
    BY_NAME = "ByName"


class CompressionFormat(StrEnum):
    """How a fetched file is packed."""

    GZIP = "Gzip"
    ZIP = "Zip"


class MqttQos(StrEnum):
    """How often a message of a broker may arrive."""

    AT_MOST_ONCE = "AtMostOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    EXACTLY_ONCE = "ExactlyOnce"


# -- fetching -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromMetadata:
    """Rows without an event time get the time when the source was modified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeSourceFromPath:
    """Rows without an event time get the one in the path: the first group of `pattern`."""

    pattern: str
    timestamp_format: str | None = None


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromSystemTime:
    """Rows without an event time get the time of their ingestion."""


@dataclass(frozen=True, slots=True)
class SourceCachingForever:
    """A source that was ingested once is never fetched again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """A header to send with a request."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """An environment variable to set, or to pass on if it has no value."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttTopicSubscription:
    """A topic of a broker."""

    path: str
    qos: MqttQos | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepUrl:
    """One file at a URL."""

    url: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    headers: tuple[RequestHeader, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepFilesGlob:
    """Files whose paths match a pattern, one after another."""

    path: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    order: SourceOrdering | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepContainer:
    """What a container writes to its output."""

    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepMqtt:
    """Messages of a broker."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    topics: tuple[MqttTopicSubscription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepEthereumLogs:
    """Logs of transactions of a blockchain."""

    chain_id: int | None = None
    node_url: str | None = None
    filter: str | None = None
    signature: str | None = None


# -- preparing and reading ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepStepDecompress:
    """Unpack an archive; `sub_path` picks a file in it, and may be a pattern."""

    format: CompressionFormat
    sub_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepStepPipe:
    """Send the bytes through a command."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepCsv:
    """Rows of delimited text."""

    ddl_schema: tuple[str, ...] | None = None
    separator: str | None = None
    encoding: str | None = None
    quote: str | None = None
    escape: str | None = None
    header: bool | None = None
    infer_schema: bool | None = None
    null_value: str | None = None
    date_format: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepGeoJson:
    """The features of one collection."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepEsriShapefile:
    """The shapes of a zipped shapefile."""

    ddl_schema: tuple[str, ...] | None = None
    sub_path: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepParquet:
    """Rows of a Parquet file."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepJson:
    """The objects of a JSON array, which `sub_path` (`a.b.c`) leads to."""

    sub_path: str | None = None
    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepNdJson:
    """One JSON object per line."""

    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepNdGeoJson:
    """One feature per line."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


# -- merging --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergeStrategyAppend:
    """Every row is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyLedger:
    """Rows are new where their key is."""

    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategySnapshot:
    """The input is the whole state: what differs from the last one is added or retracted."""

    primary_key: tuple[str, ...]
    compare_columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyChangelogStream:
    """Rows say themselves what they add, retract or correct."""

    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyUpsertStream:
    """Rows are the new values of their keys, or retract them."""

    primary_key: tuple[str, ...]
