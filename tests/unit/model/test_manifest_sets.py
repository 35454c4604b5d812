"""Manifest sets, rules and preloading as values."""

import pickle
from typing import Any, cast

import pytest

from icestream.errors import InvalidInputError
from icestream.model.config import RepositoryConfig, validate
from icestream.model.effective_config import effective
from icestream.model.manifest_sets import (
    DEFAULT_CHUNK_MANIFESTS,
    ChunkManifests,
    ChunkRange,
    ManifestPreload,
    ManifestRule,
    ManifestSet,
)


def sets(*members: ManifestSet) -> ChunkManifests:
    return ChunkManifests(members)


def faults_of(value: ChunkManifests) -> list[str]:
    return [str(fault) for fault in value.faults()]


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ((0, 500), [0, 499], [500]),
        ((2000, None), [2000, 10**12], [1999]),
        ((None, 3), [0, 2], [3]),
        ((None, None), [0, 10**12], []),
    ],
)
def test_a_range_has_its_start_and_not_its_stop(
    bounds: tuple[int | None, int | None], inside: list[int], outside: list[int]
):
    span = ChunkRange(*bounds)

    assert all(span.contains(count) for count in inside)
    assert not any(span.contains(count) for count in outside)


def test_completing_adds_the_default_set_and_fills_in_what_is_absent():
    whole = sets(
        ManifestSet("a", max_manifest_size=10, overflow_to="b"),
        ManifestSet("b", arrays_per_manifest=2, cardinality=None),
    ).completed()

    assert whole.sets == (
        ManifestSet("a", max_manifest_size=10, overflow_to="b"),
        ManifestSet("b", arrays_per_manifest=2, cardinality=None, overflow_to="default"),
        ManifestSet("default", max_manifest_size=1_000_000, cardinality=None),
    )
    assert whole.completed() == whole
    assert faults_of(whole) == []


def test_a_default_set_keeps_its_place_and_its_own_limit():
    whole = sets(
        ManifestSet("default", arrays_per_manifest=5), ManifestSet("a", max_manifest_size=1)
    ).completed()

    assert whole.sets[0] == ManifestSet("default", arrays_per_manifest=5, cardinality=None)
    assert [one.name for one in whole.sets] == ["default", "a"]


def test_without_sets_and_rules_those_of_the_default_are_in_force():
    preload = ManifestPreload(1, 2, ("/x",))

    assert ChunkManifests(preload=preload).completed() == ChunkManifests(
        DEFAULT_CHUNK_MANIFESTS.sets, DEFAULT_CHUNK_MANIFESTS.rules, preload
    )
    assert DEFAULT_CHUNK_MANIFESTS.completed() == DEFAULT_CHUNK_MANIFESTS
    assert ChunkManifests.default() is DEFAULT_CHUNK_MANIFESTS
    assert faults_of(DEFAULT_CHUNK_MANIFESTS) == []


def test_an_expression_is_for_the_whole_absolute_path():
    rule = ManifestRule("a", path=".*/time")

    assert rule.matches_path("/time")
    assert rule.matches_path("/ocean/time")
    assert not rule.matches_path("/time/bounds")
    assert not rule.matches_path("/ocean/timeline")
    assert ManifestRule("a").matches_path("/anything")
    assert ManifestPreload(arrays=("/x", "/y")).selects("/y")
    assert not ManifestPreload(arrays=()).selects("/time")


def test_merging_replaces_sets_with_their_rules_and_preloading_alone():
    mine = ChunkManifests(
        (ManifestSet("a", 1),), (ManifestRule("a"),), ManifestPreload(max_manifests=3)
    )
    packing = sets(ManifestSet("b", 2))
    preload = ChunkManifests(preload=ManifestPreload(max_manifests=4))

    assert mine.merge(packing) == ChunkManifests(packing.sets, (), mine.preload)
    assert mine.merge(preload) == ChunkManifests(mine.sets, mine.rules, preload.preload)
    assert mine.merge(ChunkManifests()) == mine


def test_a_configuration_given_at_open_is_merged_over_the_stored_one():
    stored, given = RepositoryConfig(), RepositoryConfig()
    stored.chunk_manifests = sets(ManifestSet("a", 1))
    given.chunk_manifests = ChunkManifests(preload=ManifestPreload())

    merged = stored.merge(given)

    assert merged.chunk_manifests == ChunkManifests((ManifestSet("a", 1),), (), ManifestPreload())
    assert stored.merge(RepositoryConfig()).chunk_manifests == stored.chunk_manifests
    assert RepositoryConfig().merge(given).chunk_manifests == given.chunk_manifests


def test_settings_in_force_always_have_a_default_set():
    config = RepositoryConfig()
    assert effective(config).chunk_manifests == ChunkManifests().completed()
    assert effective(config).chunk_manifests.preload is None

    config.chunk_manifests = sets(ManifestSet("a", 1))

    assert [one.name for one in effective(config).chunk_manifests.sets] == ["a", "default"]


def test_settings_pickle():
    assert pickle.loads(pickle.dumps(DEFAULT_CHUNK_MANIFESTS)) == DEFAULT_CHUNK_MANIFESTS


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([ManifestSet("a")], "sets[0].a: has neither max-manifest-size nor arrays-per-manifest"),
        ([ManifestSet("a", 1, 1)], "sets[0].a: has both max-manifest-size and arrays-per-manifest"),
        ([ManifestSet("default", 1, 1)], "sets[0].default: has both"),
        ([ManifestSet("a", 0)], "sets[0].a.max-manifest-size: 0 is not in 1..4294967295"),
        ([ManifestSet("a", 1, cardinality=0)], "sets[0].a.cardinality: 0 is not in"),
        ([ManifestSet("a", 1, split_oversized=True)], "sets[0].a.split-oversized: is for the set"),
        ([ManifestSet("", 1)], "sets[0].: '' is not the name of a set"),
        ([ManifestSet("default", cardinality=2)], "sets[0].default.cardinality: the set default"),
        ([ManifestSet("default", overflow_to="a")], "sets[0].default.overflow-to: the set default"),
        (
            [ManifestSet("default", None, 2, split_oversized=True)],
            "sets[0].default.split-oversized: needs max-manifest-size",
        ),
        ([ManifestSet("a", 1, overflow_to="c")], "sets[0].a.overflow-to: there is no set 'c'"),
        ([ManifestSet("a", 1), ManifestSet("a", 2)], "sets[1].a: there is already chunk-manifests"),
        ([ManifestSet("a", 1, overflow_to="a")], "a.overflow-to: arrays would go round in a loop"),
    ],
)
def test_a_fault_of_a_set_is_named_by_its_path(members: list[ManifestSet], expected: str):
    found = faults_of(sets(*members))

    assert any(f"chunk-manifests.{expected}" in fault for fault in found) or any(
        expected in fault for fault in found
    ), found


def test_a_loop_is_told_once_and_sets_that_lead_into_it_are_not_blamed():
    found = faults_of(
        sets(
            ManifestSet("in", 1, overflow_to="a"),
            ManifestSet("a", 1, overflow_to="b"),
            ManifestSet("b", 1, overflow_to="c"),
            ManifestSet("c", 1, overflow_to="a"),
        )
    )

    assert found == [
        "chunk-manifests.sets[1].a.overflow-to: arrays would go round in a loop: a -> b -> c -> a"
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ManifestRule("x"), "rules[0].target: there is no set 'x'"),
        (ManifestRule(""), "rules[0].target: is missing"),
        (ManifestRule("default", path="("), "rules[0].path: '(' is not a regular expression"),
        (
            ManifestRule("default", metadata_chunks=ChunkRange(5, 4)),
            "rules[0].metadata-chunks: no number is from 5 up to, but without, 4",
        ),
        (
            ManifestRule("default", initialized_chunks=ChunkRange(None, 0)),
            "rules[0].initialized-chunks: no number is from 0",
        ),
        (
            ManifestRule("default", metadata_chunks=ChunkRange(-1, 4)),
            "rules[0].metadata-chunks[0]: -1 is not in",
        ),
    ],
)
def test_a_fault_of_a_rule_is_named_by_its_path(rule: ManifestRule, expected: str):
    found = faults_of(ChunkManifests(rules=(rule,)))

    assert len(found) == 1
    assert found[0].startswith(f"chunk-manifests.{expected}")


def test_values_of_the_wrong_type_are_faults_too():
    wrong = cast("Any", 3)

    found = faults_of(ChunkManifests((), (wrong,), wrong))

    assert found == [
        "chunk-manifests.rules[0]: 3 is not a ManifestRule",
        "chunk-manifests.preload: 3 is not a ManifestPreload",
    ]
    assert faults_of(ChunkManifests((wrong,))) == [
        "chunk-manifests.sets: (3,) are not all a ManifestSet"
    ]


def test_every_fault_is_in_one_error():
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests(
        (ManifestSet("a"),), (ManifestRule("b"),), ManifestPreload(0, 0, ("[",))
    )

    with pytest.raises(InvalidInputError) as caught:
        validate(config)

    for part in (
        "chunk-manifests.sets[0].a: ",
        "chunk-manifests.rules[0].target: ",
        "chunk-manifests.preload.max-manifest-size: ",
        "chunk-manifests.preload.max-manifests: ",
        "chunk-manifests.preload.arrays[0].path: ",
    ):
        assert part in str(caught.value)
