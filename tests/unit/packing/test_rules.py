"""Rules name the set of an array."""

import pytest

from icestream.model.manifest_sets import DEFAULT_CHUNK_MANIFESTS, ChunkRange, ManifestRule
from icestream.packing.rules import apply_rules

RULES = [
    ManifestRule(
        "coord1",
        path=".*/(latitude|longitude|time)",
        metadata_chunks=ChunkRange(0, 500),
    ),
    ManifestRule("coord2", metadata_chunks=ChunkRange(0, 200)),
    ManifestRule("big-array", metadata_chunks=ChunkRange(2_000_000, None)),
]


@pytest.mark.parametrize(
    ("path", "chunks", "target"),
    [
        ("/time", 0, "coord1"),
        ("/model/latitude", 499, "coord1"),
        ("/model/latitude", 500, "default"),
        ("/station", 199, "coord2"),
        ("/station", 200, "default"),
        ("/temperature", 1_999_999, "default"),
        ("/temperature", 2_000_000, "big-array"),
    ],
)
def test_the_first_rule_whose_conditions_all_hold_decides(path, chunks, target):
    assert apply_rules(path, chunks, chunks, RULES) == target


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/time", "times"),
        ("/a/time", "default"),
        ("/times", "default"),
        ("time", "default"),
    ],
)
def test_an_expression_must_match_the_whole_absolute_path(path, target):
    assert apply_rules(path, 1, 1, [ManifestRule("times", path="/time")]) == target


def test_alternatives_of_an_expression_match_the_whole_path_too():
    rules = [ManifestRule("times", path="/t|/time")]

    assert apply_rules("/time", 1, 1, rules) == "times"
    assert apply_rules("/tx", 1, 1, rules) == "default"


def test_initialized_chunks_are_a_condition_of_their_own():
    """A sparse array has a large grid and few references."""
    rules = [
        ManifestRule(
            "sparse",
            metadata_chunks=ChunkRange(1000, None),
            initialized_chunks=ChunkRange(None, 10),
        )
    ]

    assert apply_rules("/a", 1000, 9, rules) == "sparse"
    assert apply_rules("/a", 1000, 10, rules) == "default"
    assert apply_rules("/a", 999, 9, rules) == "default"


def test_without_a_matching_rule_an_array_goes_to_default():
    assert apply_rules("/a", 1, 1, []) == "default"


def test_small_arrays_are_coordinates_unless_configured_otherwise():
    assert apply_rules("/a", 4999, 0, DEFAULT_CHUNK_MANIFESTS.rules) == "coordinates"
    assert apply_rules("/a", 5000, 0, DEFAULT_CHUNK_MANIFESTS.rules) == "default"
