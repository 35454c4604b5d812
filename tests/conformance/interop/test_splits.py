"""Splitting rules mean what they mean to icechunk."""

from types import ModuleType
from typing import Any

import icechunk
import pytest
import zarr

import icestream
from icestream.model.chunk_tables import dense_index
from icestream.model.nodes import bounding_box
from icestream.packing.splits import cells_of, split_sizes

GRID = (7, 4)


def rules_of(library: ModuleType) -> dict[str, Any]:
    """Return splitting rules, made of the library's conditions."""
    Arrays = library.ManifestSplitCondition  # noqa: N806  a class
    Dim = library.ManifestSplitDimCondition  # noqa: N806  a class
    return {
        "an axis": {Arrays.AnyArray(): {Dim.Axis(0): 3}},
        "an axis that is not there": {Arrays.AnyArray(): {Dim.Axis(5): 3}},
        "a name": {Arrays.AnyArray(): {Dim.DimensionName("la"): 3}},
        "a name that is not there": {Arrays.AnyArray(): {Dim.DimensionName("x"): 3}},
        "part of a name, anchored": {Arrays.AnyArray(): {Dim.DimensionName("^at"): 3}},
        "any dimension": {Arrays.AnyArray(): {Dim.Any(): 3}},
        "an axis before any": {Arrays.AnyArray(): {Dim.Axis(1): 1, Dim.Any(): 3}},
        "any before an axis": {Arrays.AnyArray(): {Dim.Any(): 3, Dim.Axis(1): 1}},
        "a name before an axis": {
            Arrays.AnyArray(): {Dim.DimensionName("time"): 2, Dim.Axis(0): 5}
        },
        "the path": {Arrays.path_matches("^/group/a$"): {Dim.Axis(0): 2}},
        "part of the path": {Arrays.path_matches("roup"): {Dim.Axis(0): 2}},
        "another path": {Arrays.path_matches("^a$"): {Dim.Axis(0): 2}},
        "the name": {Arrays.name_matches("^a$"): {Dim.Axis(0): 2}},
        "either": {
            Arrays.or_conditions([Arrays.name_matches("b"), Arrays.path_matches("a$")]): {
                Dim.Axis(0): 2
            }
        },
        "both": {
            Arrays.and_conditions([Arrays.name_matches("b"), Arrays.path_matches("a$")]): {
                Dim.Axis(0): 2
            }
        },
        "two rules for one axis": {
            Arrays.name_matches("a"): {Dim.Axis(0): 2},
            Arrays.AnyArray(): {Dim.Axis(0): 5},
        },
        "two rules for two axes": {
            Arrays.name_matches("a"): {Dim.Axis(0): 2},
            Arrays.AnyArray(): {Dim.Any(): 3},
        },
        "larger than the array": {Arrays.AnyArray(): {Dim.Any(): 100}},
        "the default": {Arrays.AnyArray(): {Dim.Any(): 2**32 - 1}},
    }


def boxes_of_icechunk(splitting):
    """Return the boxes of the manifests that icechunk writes."""
    config = icechunk.RepositoryConfig(manifest=icechunk.ManifestConfig(splitting=splitting))
    repo = icechunk.Repository.create(icechunk.in_memory_storage(), config=config)
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store,
        name="group/a",
        shape=GRID,
        chunks=(1, 1),
        dtype="i4",
        dimension_names=("time", "lat"),
    )
    array[...] = 1
    snapshot: Any = repo.inspect_snapshot(session.commit("all chunks"))
    refs = next(node["manifest_refs"] for node in snapshot["nodes"] if node["path"] == "/group/a")
    return sorted(tuple(map(tuple, ref["extents"])) for ref in refs)


@pytest.mark.parametrize("case", rules_of(icestream))
def test_an_array_is_cut_where_icechunk_cuts_it(case):
    theirs = icechunk.ManifestSplittingConfig.from_dict(rules_of(icechunk)[case])
    ours = icestream.ManifestSplittingConfig.from_dict(rules_of(icestream)[case])

    sizes = split_sizes("/group/a", ("time", "lat"), GRID, ours)

    index = dense_index(GRID)
    cells = [rows for _, rows in cells_of(index, sizes)] if sizes else [slice(None)]
    assert sorted(bounding_box(index[rows]) for rows in cells) == boxes_of_icechunk(theirs)
