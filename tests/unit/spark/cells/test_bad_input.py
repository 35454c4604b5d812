"""What cannot be read says so, with the way out."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from zarr.abc.store import Store

from icestream.errors import InvalidInputError, NodeNotFoundError
from icestream.repository.repository import Repository
from icestream.spark.cells.decoding import decoding_of
from icestream.spark.cells.grids import CellQuery, parse_names
from icestream.spark.cells.plans import plan_cells
from icestream.spark.cells.selections import parse_selection, positions_of
from icestream.spark.options import parse_options
from icestream.storage import in_memory_storage


@pytest.fixture(scope="module")
def store() -> Store:
    session = Repository.create(in_memory_storage()).writable_session("main")
    root = zarr.group(session.store)
    for name, shape, dtype, dimensions in [
        ("x", (4,), "f8", ["x"]),
        ("flat", (4,), "f4", ["x"]),
        ("deep", (4, 2), "f4", ["x", "z"]),
        ("waves", (4,), "c16", ["x"]),
        ("square", (2, 2), "i1", ["n", "n"]),
        ("n", (4, 2), "i1", ["x", "n"]),
        ("case/T", (4,), "f4", ["x"]),
        ("case/t", (4,), "f4", ["x"]),
        ("case/Z", (4, 2), "f4", ["x", "z"]),
    ]:
        root.create_array(name, shape=shape, dtype=dtype, dimension_names=dimensions)
    root.create_group("empty")
    return session.store


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (CellQuery(array="/nope"), "no array nope; it has deep, flat, n"),
        (CellQuery(group="/nope"), "no group /nope"),
        (CellQuery(group="/empty"), "/empty has no variables"),
        (CellQuery(group="/x"), "option array"),
        (CellQuery(variables=("flat", "deep")), r"flat\(x: 4\), deep\(x: 4, z: 2\)"),
        (CellQuery(), "different grids"),
        (CellQuery(array="waves"), "'waves' has values of the type complex128"),
        (CellQuery(array="square"), "two dimensions of one name"),
        (CellQuery(array="n"), "'n' would be there twice"),
        (
            CellQuery(group="/case", variables=("t", "T")),
            "'t' and 'T' differ only in case.*option variables",
        ),
        (CellQuery(array="/case/Z"), "'z' and 'Z' differ only in case.*rename"),
    ],
)
def test_variables_that_are_no_table(store: Store, query: CellQuery, told: str) -> None:
    with pytest.raises((InvalidInputError, NodeNotFoundError), match=told):
        plan_cells(store, query)


def test_one_of_two_names_that_differ_in_case_is_a_table(store: Store) -> None:
    assert plan_cells(store, CellQuery(array="/case/T")).schema.names == ["x", "T"]


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        ({"x": True}, "True cannot be compared with the coordinate 'x'"),
        ({"y": 1}, "'y', which is no coordinate of a dimension; those are x"),
        ({"x": "north"}, "'north' cannot be compared with the coordinate 'x'"),
        ({"x": {"above": 1}}, "is not understood"),
        ({"x": None}, "is not understood"),
        ({"x": slice(1, 2, 3)}, "is not understood"),
    ],
)
def test_selections_that_mean_nothing(store: Store, selection: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        plan_cells(store, CellQuery(array="flat"), selection)


@pytest.mark.parametrize("text", ["lat > 3", "[1]"])
def test_a_selection_is_a_json_object(text: str) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        parse_selection(text)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"colour": "red"}, "'colour' is not known; there are path"),
        ({"aws_secret_access_key": "x"}, "never an option"),
        ({"array": "a", "variables": "b"}, "'variables' means nothing"),
        ({"table": "refs", "select": "{}"}, "'select' means nothing for a table"),
        ({"table": "events", "tag": "v1"}, "'tag' means nothing for a ledger dataset"),
        ({"as-of": "yesterday"}, "as-of is 'yesterday'"),
        ({"decode": "perhaps"}, "neither true nor false"),
        ({"rows-per-partition": "0"}, "whole number above 0"),
        ({"variables": "[a"}, "no JSON list"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        parse_options({"path": "ocean", **options})


def test_a_source_needs_a_path() -> None:
    with pytest.raises(InvalidInputError, match="no path"):
        parse_options({})


def test_options_are_values_once_they_are_parsed() -> None:
    options = parse_options(
        {
            "path": "file:/data/ocean",
            "as-of": "2026-01-31",
            "variables": "u, v",
            "authorize": "s3://bucket/, gs",
            "Select": '{"lat": 1}',
        }
    )

    assert options.place.address == "file:///data/ocean"
    assert options.version.as_of == datetime(2026, 1, 31, tzinfo=UTC)
    assert options.query.variables == ("u", "v")
    assert options.authorize == ("s3://bucket/", "gs")
    assert options.selection == {"lat": 1}
    assert parse_names('["a,b", "c"]') == ("a,b", "c")


# -- decoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "attributes", "stored", "decoded"),
    [
        ("i1", {"_Unsigned": "true", "_FillValue": -1}, [1, -2, -1], [1, 254, None]),
        ("u1", {"_FillValue": 255, "missing_value": [0]}, [0, 7, 255], [None, 7, None]),
        ("f4", {"_FillValue": "AAAAAAAA+H8="}, [1.5, np.nan], [1.5, None]),
        ("f8", {"missing_value": -999.0}, [np.inf, -999.0], [np.inf, None]),
        (">i2", {"scale_factor": 0.5}, [3, 4], [1.5, 2.0]),
        ("f4", {"scale_factor": 2, "add_offset": 1.0, "_FillValue": 0.0}, [3, 0], [7.0, None]),
        ("f2", {"add_offset": 0.5}, [1], [1.5]),
        ("i2", {"scale_factor": 0.0}, [3], [0.0]),
        ("i4", {"scale_factor": 0.5, "units": "days since 2000-01-01"}, [2], ["2000-01-02"]),
        ("u8", {}, [2**64 - 1], [2**64 - 1]),
        ("?", {}, [True, False], [True, False]),
        ("U3", {}, ["ab", "cde"], ["ab", "cde"]),
        ("U3", {"_FillValue": "-", "missing_value": ["none"]}, ["ab", "-"], ["ab", None]),
        (np.dtypes.StringDType(), {"_FillValue": ""}, ["ab", ""], ["ab", None]),
        ("f8", {"units": "days since 2000-01-01", "calendar": "360_day"}, [59.0], [59.0]),
        (
            "i4",
            {"units": "hours since 2000-01-01", "_FillValue": -1},
            [24, -1],
            ["2000-01-02", None],
        ),
        ("M8[s]", {}, ["2000-01-02", "NaT"], ["2000-01-02", None]),
    ],
)
def test_stored_values_become_what_they_stand_for(
    dtype: Any, attributes: dict[str, Any], stored: list[Any], decoded: list[Any]
) -> None:
    decoding = decoding_of("a", np.dtype(dtype), attributes)

    column = decoding.decode(np.array(stored, dtype))

    assert column.type == decoding.type
    values = [v.date().isoformat() if isinstance(v, datetime) else v for v in column.to_pylist()]
    assert values == decoded


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"scale_factor": "two"}, "scale_factor of 'a' is 'two'"),
        ({"units": "months since 2000-01-01"}, "times of 'a'.*decode=false"),
    ],
)
def test_attributes_that_cannot_be_followed(attributes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        decoding_of("a", np.dtype("i4"), attributes)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("2024", [0, 1, 2]),
        ("2024-05-01", [0, 1]),
        ("2024-05-01T12:00:00Z", [1]),
        ("2024-05-01T14:00:00+02:00", [1]),
        (datetime(2024, 5, 1, tzinfo=UTC), [0]),
        (np.datetime64("2024-05-02"), [2]),
        ({"to": "2024-05-01"}, [0, 1]),
        ({"from": "2024-05-01 06:00"}, [1, 2]),
        (["2024-05-01T00", "2024-05-02"], [0, 2]),
    ],
)
def test_moments_are_as_exact_as_they_are_written(condition: Any, found: list[int]) -> None:
    moments = [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, 12, tzinfo=UTC)]
    values = pa.array([*moments, datetime(2024, 5, 2, tzinfo=UTC), None], pa.timestamp("us", "UTC"))

    assert list(positions_of("time", condition, values)) == found


def test_texts_are_selected_by_their_order() -> None:
    values = pa.array(["bergen", "kyiv", "odesa"])

    assert list(positions_of("station", {"from": "kyiv"}, values)) == [1, 2]
    assert list(positions_of("station", ["odesa", "bergen"], values)) == [0, 2]
