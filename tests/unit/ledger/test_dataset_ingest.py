"""Files of declared sources: fetched, prepared, read, preprocessed and merged."""

import gzip
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.errors import AccessError, InvalidInputError, NotFoundError, SourceError
from icestream.ledger import AddData, Dataset, IngestSettings, read_snapshots
from icestream.ledger.blocks.events import SourceState
from icestream.ledger.blocks.sources import ReadStepCsv, ReadStepNdJson, ReadStepParquet
from icestream.ledger.blocks.transforms import Transform
from icestream.storage.memory import InMemoryStorage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def create(events: str) -> Dataset:
    """Create a root dataset from the YAML of its events."""
    lines = "".join(f"    {line}\n" for line in events.strip("\n").splitlines())
    text = (
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: cities\n  kind: Root\n"
        f"  metadata:\n{lines}"
    )
    (snapshot,) = read_snapshots(text.encode())
    return Dataset.create(InMemoryStorage(), snapshot)


def glob_source(pattern: str, more: str = "", read: str = "kind: Csv\n    header: true") -> str:
    return f"""
- kind: SetPollingSource
  fetch:
    kind: FilesGlob
    path: {pattern}
  read:
    {read}
  merge:
    kind: Append
{more}"""


def push_source(merge: str = "kind: Append", more: str = "") -> str:
    return f"""
- kind: AddPushSource
  sourceName: feed
  read:
    kind: NdJson
  merge:
    {merge}
{more}"""


PREPROCESS = """
  preprocess:
    kind: Sql
    engine: spark
    query: select upper(city) as city from input
"""


def names(dataset: Dataset) -> Sequence[str]:
    return dataset.to_arrow().column("city").to_pylist()  # type: ignore[no-any-return]  # untyped


def source_state(dataset: Dataset) -> SourceState | None:
    event = dataset.state.data_event
    assert isinstance(event, AddData)
    return event.new_source_state


# -- polling --------------------------------------------------------------------------------------


def test_every_file_of_a_pattern_is_a_transaction(tmp_path: Path) -> None:
    for day in ("2024-01-02", "2024-01-01"):
        (tmp_path / f"{day}.csv").write_text(f"city\nkyiv on {day}\n")
    dataset = create(glob_source("'*.csv'"))

    added = dataset.ingest(IngestSettings(folder=tmp_path))

    assert [each.record_count for each in added] == [1, 1]
    assert names(dataset) == ["kyiv on 2024-01-01", "kyiv on 2024-01-02"]
    assert source_state(dataset) == SourceState(
        source_name="default", kind="odf/etag", value="2024-01-02.csv"
    )
    assert dataset.verify().is_valid


def test_polling_again_takes_only_what_is_new(tmp_path: Path) -> None:
    settings = IngestSettings(folder=tmp_path)
    (tmp_path / "a.csv").write_text("city\nkyiv\n")
    dataset = create(glob_source("'*.csv'"))
    dataset.ingest(settings)
    head = dataset.head

    assert dataset.ingest(settings) == []
    assert dataset.head == head
    (tmp_path / "b.csv").write_text("city\nodesa\n")
    assert [each.record_count for each in dataset.ingest(settings)] == [1]
    assert names(dataset) == ["kyiv", "odesa"]


def test_the_source_state_outlives_a_watermark_set_by_hand(tmp_path: Path) -> None:
    settings = IngestSettings(folder=tmp_path)
    (tmp_path / "a.csv").write_text("city\nkyiv\n")
    dataset = create(glob_source("'*.csv'"))
    dataset.ingest(settings)
    before = source_state(dataset)

    dataset.add_data(None, watermark=datetime(2100, 1, 1, tzinfo=UTC))

    assert source_state(dataset) == before
    assert dataset.ingest(settings) == []


def test_an_empty_file_is_noted_and_not_read_again(tmp_path: Path) -> None:
    settings = IngestSettings(folder=tmp_path)
    (tmp_path / "a.csv").write_text("")
    dataset = create(glob_source("'*.csv'"))

    (added,) = dataset.ingest(settings)

    assert (added.record_count, added.is_up_to_date) == (0, False)
    assert dataset.ingest(settings) == []


def test_a_packed_file_at_a_url_is_fetched_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "cities.csv.gz"
    path.write_bytes(gzip.compress(b"city,size\nkyiv,3\nodesa,1\n"))
    dataset = create("""
- kind: SetPollingSource
  fetch:
    kind: Url
    url: ${{ env.ARCHIVE }}/cities.csv.gz
  prepare:
  - kind: Decompress
    format: Gzip
  read:
    kind: Csv
    header: true
    ddlSchema: [city STRING, size BIGINT]
  merge:
    kind: Snapshot
    primaryKey: [city]
""")
    settings = IngestSettings(variables={"ARCHIVE": tmp_path.as_uri()})

    first, again = dataset.ingest(settings), dataset.ingest(settings)
    path.write_bytes(gzip.compress(b"city,size\nkyiv,4\n"))
    os.utime(path, (2_000_000_000, 2_000_000_000))
    changed = dataset.ingest(settings)

    assert [each.record_count for each in first] == [2]
    assert again == []
    assert [each.record_count for each in changed] == [3]
    assert dataset.to_arrow().column("op").to_pylist() == [0, 0, 2, 3, 1]
    assert dataset.watermark is not None
    assert dataset.watermark.to_datetime() == datetime.fromtimestamp(2_000_000_000, UTC)


def test_columns_are_made_to_fit_where_the_source_declares_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("city,offset,event_time\nkyiv,7,2024-05-01T12:00:00Z\n")
    dataset = create(glob_source("'*.csv'"))

    dataset.ingest(IngestSettings(folder=tmp_path))

    (row,) = dataset.to_arrow().to_pylist()
    assert (row["offset"], row["_offset"], row["event_time"]) == (0, "7", NOON)


def test_a_broken_file_stops_polling_and_keeps_what_came_before(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"city": "kyiv"}\n')
    (tmp_path / "b.json").write_text("{")
    dataset = create(glob_source("'*.json'", read="kind: NdJson"))

    with pytest.raises(SourceError, match=r"b\.json cannot be read as NdJson"):
        dataset.ingest(IngestSettings(folder=tmp_path))

    assert names(dataset) == ["kyiv"]


def test_commands_run_only_for_those_who_allow_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("city\nkyiv\n")
    prepare = "  prepare:\n  - kind: Pipe\n    command: [tr, a-z, A-Z]"
    dataset = create(glob_source("'*.csv'", prepare))

    with pytest.raises(AccessError, match="allow commands"):
        dataset.ingest(IngestSettings(folder=tmp_path))
    dataset.ingest(IngestSettings(folder=tmp_path, allows_commands=True))

    assert dataset.to_arrow().column("CITY").to_pylist() == ["KYIV"]


def test_a_dataset_without_a_polling_source_is_not_polled() -> None:
    with pytest.raises(NotFoundError, match="SetPollingSource"):
        create(push_source()).ingest()


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server of a file that tells neither a version nor a time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"city\nkyiv\n")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/cities.csv"
        server.shutdown()


def test_what_does_not_tell_whether_it_changed_is_fetched_again_on_demand(
    silent_server: str,
) -> None:
    dataset = create(f"""
- kind: SetPollingSource
  fetch: {{kind: Url, url: "{silent_server}"}}
  read: {{kind: Csv, header: true}}
  merge: {{kind: Ledger, primaryKey: [city]}}
""")
    first = dataset.ingest()
    dataset.add_data(None, watermark=datetime(2100, 1, 1, tzinfo=UTC))

    again = dataset.ingest()
    forced = dataset.ingest(IngestSettings(fetches_uncacheable=True))

    assert [each.record_count for each in first] == [1]
    assert again == []
    assert [each.is_up_to_date for each in forced] == [True]


def test_rows_are_handed_in_for_a_polling_source_under_its_name(tmp_path: Path) -> None:
    dataset = create(glob_source(f"{tmp_path}/*.csv"))

    added = dataset.add_data(pa.table({"city": ["kyiv"]}), source_name="default")

    assert added.record_count == 1


# -- pushing --------------------------------------------------------------------------------------


def test_a_file_that_is_handed_in_is_read_as_its_source_says() -> None:
    dataset = create(push_source("kind: Ledger\n    primaryKey: [city]"))

    first = dataset.ingest_file(b'{"city": "kyiv"}\n{"city": "odesa"}\n', event_time=NOON)
    again = dataset.ingest_file(b'{"city": "kyiv"}\n', source_name="feed", event_time=NOON)

    assert (first.record_count, again.is_up_to_date) == (2, True)
    assert dataset.to_arrow().column("event_time").to_pylist() == [NOON, NOON]


def test_without_a_source_the_format_must_be_given() -> None:
    dataset = Dataset.create(InMemoryStorage(), "cities")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"city": ["lviv"]}), sink)

    with pytest.raises(InvalidInputError, match=r"give their format .*--input-format"):
        dataset.ingest_file(b"city\nkyiv\n")
    dataset.ingest_file(b"city\nkyiv\n", read=ReadStepCsv(header=True))
    dataset.ingest_file(b'{"city": "odesa"}', read=ReadStepNdJson())
    dataset.ingest_file(sink.getvalue().to_pybytes(), read=ReadStepParquet())

    assert names(dataset) == ["kyiv", "odesa", "lviv"]


def test_new_columns_of_files_extend_the_schema_on_demand() -> None:
    dataset = create(push_source())
    dataset.ingest_file(b'{"city": "kyiv"}')

    with pytest.raises(InvalidInputError, match="size"):
        dataset.ingest_file(b'{"city": "odesa", "size": 1}')
    settings = IngestSettings(evolves_schema=True)
    dataset.ingest_file(b'{"city": "odesa", "size": 1}', settings=settings)

    assert dataset.to_arrow().column("size").to_pylist() == [None, 1]


def test_nothing_is_handed_in_where_a_source_is_polled(tmp_path: Path) -> None:
    dataset = create(glob_source(f"{tmp_path}/*.csv"))

    with pytest.raises(InvalidInputError, match="without a file"):
        dataset.ingest_file(b"city\nkyiv\n")


# -- preprocessing --------------------------------------------------------------------------------


def test_sql_needs_something_that_runs_it() -> None:
    dataset = create(push_source(more=PREPROCESS))

    with pytest.raises(InvalidInputError, match="sql_preprocess"):
        dataset.ingest_file(b'{"city": "kyiv"}')


def test_rows_are_preprocessed_by_what_is_given() -> None:
    queries: list[str] = []

    def preprocess(table: pa.Table, transform: Transform) -> pa.Table:
        queries.extend(step.query for step in transform.queries or ())
        return table.rename_columns(["city"])

    dataset = create(push_source(more=PREPROCESS))
    dataset.ingest_file(b'{"name": "kyiv"}', settings=IngestSettings(preprocess=preprocess))

    assert names(dataset) == ["kyiv"]
    assert queries == ["select upper(city) as city from input"]
