import pickle
from typing import Any

import pytest

from icestream.model.manifest_conditions import (
    MAX_CONDITION_DEPTH,
    AnyDimCondition,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    dim_matches,
)
from icestream.model.manifest_config import ManifestSplittingConfig

Preload = ManifestPreloadCondition
Split = ManifestSplitCondition
Dim = ManifestSplitDimCondition


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Preload.true(), True),
        (Preload.false(), False),
        (Preload.name_matches("^temp"), True),
        (Preload.name_matches("model"), False),
        (Preload.path_matches("^/model/"), True),
        (Preload.path_matches("outputs/temp"), True),
        (Preload.num_refs(10, 11), True),
        (Preload.num_refs(None, 10), False),
        (Preload.num_refs(11, None), False),
        (Preload.true() & Preload.false(), False),
        (Preload.true() | Preload.false(), True),
        (Preload.or_conditions([]), False),
        (Preload.and_conditions([]), True),
        (Preload.name_matches("("), False),
    ],
)
def test_a_preload_condition_looks_at_path_name_and_size(condition: Preload, expected: bool):  # noqa: FBT001  a value
    assert condition.matches("/model/outputs/temperature", 10) is expected


def test_a_split_condition_looks_at_path_and_name():
    condition = Split.AnyArray() & (Split.name_matches("^t$") | Split.path_matches("/b/"))

    assert condition.matches("/a/t")
    assert condition.matches("/b/x")
    assert not condition.matches("/a/x")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Dim.Axis(1), [False, True]),
        (Dim.DimensionName("lon"), [False, True]),
        (Dim.DimensionName("."), [False, True]),
        (Dim.Any(), [True, True]),
    ],
)
def test_a_dimension_is_chosen_by_number_or_name(condition: AnyDimCondition, expected: list[bool]):
    found = [dim_matches(condition, axis, name) for axis, name in [(0, None), (1, "longitude")]]

    assert found == expected


@pytest.mark.parametrize(
    "condition",
    [
        (Preload.name_matches("a") | Preload.true()) & Preload.num_refs(1, None),
        Split.AnyArray() | Split.path_matches("x"),
        Dim.Axis(1),
        Dim.DimensionName("x"),
        Dim.Any(),
    ],
)
def test_conditions_are_values(condition: Any):
    again = pickle.loads(pickle.dumps(condition))

    assert again == condition
    assert hash(again) == hash(condition)
    with pytest.raises(AttributeError):
        condition.extra = {}


def test_conditions_of_different_kinds_are_never_equal():
    conditions: list[object] = [Preload.name_matches("a"), Split.name_matches("a"), Dim.Any()]

    assert all(conditions.count(condition) == 1 for condition in conditions)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Preload.num_refs(1, None), "ManifestPreloadCondition.num_refs(1, None)"),
        (Split.AnyArray(), "ManifestSplitCondition.AnyArray()"),
        (
            Split.name_matches("a") & Split.path_matches("b"),
            (
                "ManifestSplitCondition.and_conditions([ManifestSplitCondition.name_matches('a'), "
                "ManifestSplitCondition.path_matches('b')])"
            ),
        ),
    ],
)
def test_the_repr_is_how_to_make_the_condition(condition: Any, text: str):
    assert repr(condition) == text
    assert eval(text) == condition  # noqa: S307  our own text


def test_endless_nesting_is_a_fault():
    condition = Preload.true()
    for _ in range(MAX_CONDITION_DEPTH + 2):
        condition = Preload.or_conditions([condition])

    assert any("nest deeper" in fault.reason for fault in condition.faults("preload_if"))


def test_conditions_of_the_wrong_kind_are_a_fault():
    condition = Preload.or_conditions([Split.AnyArray()])  # type: ignore[list-item]  # the test

    (fault,) = condition.faults("preload_if")

    assert str(fault).startswith("preload_if.or[0]: ManifestSplitCondition.AnyArray() is not a")


def test_split_sizes_are_a_dict_or_pairs_in_order():
    sizes: dict[Split, dict[AnyDimCondition, int]] = {
        Split.name_matches("t"): {Dim.Axis(0): 3, Dim.Any(): 4},
        Split.AnyArray(): {},
    }

    config = ManifestSplittingConfig.from_dict(sizes)

    assert config.split_sizes == (
        (Split.name_matches("t"), ((Dim.Axis(0), 3), (Dim.Any(), 4))),
        (Split.AnyArray(), ()),
    )
    assert config.to_dict() == sizes
    assert ManifestSplittingConfig().to_dict() == {}
