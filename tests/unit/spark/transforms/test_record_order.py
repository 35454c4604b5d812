"""The order of records does not depend on the order in which they come."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icestream.ledger.data.system_columns import SystemColumns
from icestream.spark.transforms.record_order import in_total_order

COLUMNS = SystemColumns()
TIMES = st.none() | st.sampled_from([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | st.sampled_from(["a", "b", "ä"]),
            "event_time": TIMES,
            "op": st.integers(0, 3),
            "place": st.none() | st.fixed_dictionaries({"x": st.integers(0, 2)}),
            "tags": st.none() | st.lists(st.sampled_from(["p", "q"]), max_size=2),
        }
    ),
    max_size=8,
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("event_time", pa.timestamp("ms", "UTC")),
        ("op", pa.int32()),
        ("place", pa.struct([("x", pa.int64())])),
        ("tags", pa.list_(pa.string())),
        ("nothing", pa.null()),
    ]
)


@given(ROWS, st.randoms())
def test_any_order_of_the_same_rows_becomes_the_same(rows, random) -> None:
    shuffled = random.sample(rows, len(rows))

    one, other = (
        in_total_order(pa.Table.from_pylist(each, SCHEMA), COLUMNS) for each in (rows, shuffled)
    )

    assert one.equals(other)
    given_rows = pa.Table.from_pylist(rows, SCHEMA).to_pylist()
    assert sorted(map(repr, one.to_pylist())) == sorted(map(repr, given_rows))


def test_event_time_comes_first_then_the_operation() -> None:
    early, late = (datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2))
    table = pa.table(
        {"a": [1, 2, 3, 0], "op": [3, 2, 0, 0], "event_time": [early, early, late, late]}
    )

    assert in_total_order(table, COLUMNS).column("a").to_pylist() == [2, 1, 0, 3]
