"""Inventories: what became of files between two runs."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError
from icestream.ingest.inventory import (
    changes_since,
    inventory_definition,
    known_files,
    record_listing,
)
from icestream.ingest.listing import FILE_SCHEMA, FileListing
from icestream.ledger import AddData, Dataset
from icestream.storage.memory import InMemoryStorage
from icestream.testing.doubles import CountingStorage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def inventory() -> Dataset:
    return Dataset.create(InMemoryStorage(), inventory_definition("sst.inventory"))


def listing(**etags: str | None) -> FileListing:
    rows = [
        {"url": url, "size": 10, "etag": etag, "last_modified": NOON}
        for url, etag in sorted(etags.items())
    ]
    return FileListing(pa.Table.from_pylist(rows, schema=FILE_SCHEMA), 1)


def told(dataset: Dataset, since: int | None) -> dict[str, Any]:
    changes = changes_since(dataset, since)
    return {
        "added": changes.added["url"].to_pylist(),
        "changed": [
            (row["url"], row["old_etag"], row["etag"]) for row in changes.changed.to_pylist()
        ],
        "vanished": changes.vanished["url"].to_pylist(),
    }


def test_the_first_listing_adds_all_files() -> None:
    dataset = inventory()

    added = record_listing(dataset, listing(a="1", b=None))

    assert added.record_count == 2
    assert told(dataset, None) == {"added": ["a", "b"], "changed": [], "vanished": []}
    assert changes_since(dataset, None).new_offset == 1
    assert known_files(dataset).equals(listing(a="1", b=None).table)


def test_a_listing_without_news_adds_nothing() -> None:
    dataset = inventory()
    record_listing(dataset, listing(a="1", b=None))

    again = record_listing(dataset, listing(a="1", b=None))

    assert again.is_up_to_date
    assert len(changes_since(dataset, 1)) == 0
    assert changes_since(dataset, 1).new_offset == 1


def test_only_differences_become_records_in_one_block() -> None:
    dataset = inventory()
    record_listing(dataset, listing(a="1", b="1", c="1"))
    blocks = len(list(dataset.blocks()))

    added = record_listing(dataset, listing(a="1", b="2", d="1"))

    assert added.record_count == 4  # two for the one that changed
    assert len(list(dataset.blocks())) == blocks + 1
    assert isinstance(next(dataset.blocks()).event, AddData)
    assert told(dataset, 2) == {"added": ["d"], "changed": [("b", "1", "2")], "vanished": ["c"]}


@pytest.mark.parametrize("column", ["size", "etag", "last_modified"])
def test_any_part_of_the_identity_counts(column: str) -> None:
    dataset = inventory()
    record_listing(dataset, listing(a="1"))
    other: dict[str, Any] = {"size": 11, "etag": None, "last_modified": None}
    [row] = listing(a="1").table.to_pylist()
    changed = pa.Table.from_pylist([row | {column: other[column]}], schema=FILE_SCHEMA)

    record_listing(dataset, FileListing(changed, 1))

    [found] = changes_since(dataset, 0).changed.to_pylist()
    assert found[column] == other[column]
    assert found[f"old_{column}"] == row[column]


def test_several_records_of_a_file_are_one_change() -> None:
    dataset = inventory()
    record_listing(dataset, listing(a="1", b="1", c="1", d="1"))
    since = dataset.last_offset
    record_listing(dataset, listing(a="2", c="2", e="1", f="1"))
    record_listing(dataset, listing(a="3", b="1", c="1", f="2"))
    record_listing(dataset, listing(a="4", b="2", c="1", f="2"))

    assert told(dataset, since) == {
        "added": ["f"],
        "changed": [("a", "1", "4"), ("b", "1", "2")],
        "vanished": ["d"],
    }
    assert told(dataset, None)["added"] == ["a", "b", "c", "f"]
    assert told(dataset, dataset.last_offset) == {"added": [], "changed": [], "vanished": []}


def test_a_file_that_comes_back_as_it_was_has_not_changed() -> None:
    dataset = inventory()
    record_listing(dataset, listing(a="1", b="1"))
    record_listing(dataset, listing(a="1"))
    record_listing(dataset, listing(a="1", b="1"))

    assert len(changes_since(dataset, 1)) == 0


def test_an_inventory_without_records_knows_no_files() -> None:
    changes = changes_since(inventory(), None)

    assert len(changes) == 0
    assert changes.new_offset is None
    assert changes.added.schema == FILE_SCHEMA


def test_only_the_records_since_an_offset_are_read() -> None:
    counting = CountingStorage(InMemoryStorage())
    dataset = Dataset.create(counting, inventory_definition("sst.inventory"))
    for number in range(20):
        record_listing(dataset, listing(**{f"f{i}": "1" for i in range(number + 1)}))
    counting.requests.clear()

    assert told(Dataset.open(counting), 18)["added"] == ["f19"]
    assert counting.requests.total() < 10


def test_a_listing_with_a_file_twice_is_refused() -> None:
    table = pa.concat_tables([listing(a="1").table] * 2)

    with pytest.raises(InvalidInputError):
        record_listing(inventory(), FileListing(table, 1))
