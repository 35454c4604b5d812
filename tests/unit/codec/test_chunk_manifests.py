"""Manifest sets in the form that people write."""

from pathlib import Path
from typing import Any

import pytest

from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
    encode_extension,
    show_config,
    with_extension,
)
from icestream.codec.flexbuffers import decode_flex
from icestream.errors import FormatError
from icestream.model.config import RepositoryConfig
from icestream.model.manifest_sets import (
    DEFAULT_CHUNK_MANIFESTS,
    ChunkManifests,
    ChunkRange,
    ManifestPreload,
    ManifestRule,
    ManifestSet,
)

EXAMPLE = r"""
chunk-manifests:
  sets:                           # an ordered list

    - coord1:

        max-manifest-size: 10000  # references

        arrays-per-manifest: null # the other way to pack

        overflow-to: coord2

        cardinality: 2

    - coord2:
        max-manifest-size: 10000
                                  # overflow-to: default
                                  # cardinality: 1

    - big-array:
        max-manifest-size: null
        arrays-per-manifest: 1
        cardinality: null

    - default:                    # nothing is said of it


  rules:

    - path: .*/(latitude|longitude|time)

      metadata-chunks: [0, 500]

      target: coord1


    - metadata-chunks: [0, 200]
      target: coord2


    - metadata-chunks: [2000000, null]
      target: big-array


  preload:
    max-manifest-size: 50000
    max-manifests: 10
    arrays:

      - path: .*/time
      - path: .*/latitude
      - path: .*/longitude
"""

DEFAULTS = """
chunk-manifests:  # the whole of what is in force by default
  sets:
    - coordinates:
        max-manifest-size: 50000
        cardinality: 1
        max-arrays-per-manifest: null
        overflow-to: default

    - default:
        max-manifest-size: 1000000
        cardinality: null
        max-arrays-per-manifest: null
        overflow-to: null

  rules:
    - metadata-chunks: [0, 5000]
      path: .*
      target: coordinates

  preload:
    max-manifest-size: 50000
    max-manifests: 1
    arrays:
      - path: .*/time
      - path: .*/latitude
      - path: .*/longitude
"""

FULL = ChunkManifests(
    (
        ManifestSet("a b", max_manifest_size=7, cardinality=None, overflow_to="c"),
        ManifestSet("c", arrays_per_manifest=3),
        ManifestSet("d", max_manifest_size=1, cardinality=4),
        ManifestSet("default", max_manifest_size=9, cardinality=None, split_oversized=False),
    ),
    (
        ManifestRule("c", ".*é", ChunkRange(1, None), ChunkRange(None, 2**40)),
        ManifestRule("default"),
    ),
    ManifestPreload(1, 2, ()),
)


def from_yaml(text: str) -> RepositoryConfig:
    return decode_config_yaml(text.encode(), name="config.yaml")


def read(text: str) -> ChunkManifests | None:
    return from_yaml(text).chunk_manifests


def config_of(chunk_manifests: ChunkManifests) -> RepositoryConfig:
    config = RepositoryConfig()
    config.chunk_manifests = chunk_manifests
    return config


def faults_in(text: str) -> str:
    with pytest.raises(FormatError) as caught:
        read(text)
    return str(caught.value)


def test_an_example_with_every_setting_is_read_as_written():
    assert read(EXAMPLE) == ChunkManifests(
        (
            ManifestSet("coord1", max_manifest_size=10_000, cardinality=2, overflow_to="coord2"),
            ManifestSet("coord2", max_manifest_size=10_000),
            ManifestSet("big-array", arrays_per_manifest=1, cardinality=None),
            ManifestSet("default"),
        ),
        (
            ManifestRule("coord1", ".*/(latitude|longitude|time)", ChunkRange(0, 500)),
            ManifestRule("coord2", metadata_chunks=ChunkRange(0, 200)),
            ManifestRule("big-array", metadata_chunks=ChunkRange(2_000_000, None)),
        ),
        ManifestPreload(50_000, 10, (".*/time", ".*/latitude", ".*/longitude")),
    )


def test_the_defaults_written_out_are_the_defaults():
    found = read(DEFAULTS)

    assert found is not None
    assert found.completed() == DEFAULT_CHUNK_MANIFESTS


def test_the_example_of_the_manual_is_valid():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "manifest-sets.md"
    example = page.read_text().split("```yaml\n")[1].split("```")[0]

    found = read(example)

    assert found is not None
    assert [one.name for one in found.sets] == ["coordinates", "small", "huge", "default"]
    assert found.sets[1].cardinality is None
    assert found.rules[2].metadata_chunks == ChunkRange(2_000_000, None)


def test_other_spellings_and_grouped_digits_are_read():
    assert read("""
chunk-manifests:
  sets:
  - a: {max-size: 1_000}
  - b: {max-arrays-per-manifest: 2, arrays-per-manifest: null}
  - default: {max-size: 1_000_000}
  rules:
  - {initialized-chunks: [null, 10_000], target: a}
  preload: {max-manifests: 1_0}
""") == ChunkManifests(
        (
            ManifestSet("a", max_manifest_size=1000),
            ManifestSet("b", arrays_per_manifest=2),
            ManifestSet("default", max_manifest_size=1_000_000),
        ),
        (ManifestRule("a", initialized_chunks=ChunkRange(None, 10_000)),),
        ManifestPreload(max_manifests=10),
    )


def test_grouped_digits_stay_a_text_where_a_text_belongs():
    assert read("chunk-manifests: {rules: [{target: default, path: 1_0}]}") == ChunkManifests(
        rules=(ManifestRule("default", "1_0"),)
    )


def test_null_is_the_same_as_absent_but_for_the_cardinality():
    absent = "chunk-manifests: {sets: [{a: {max-size: 1}}], rules: [{target: a}], preload: {}}"
    null = """
chunk-manifests:
  sets:
  - a: {max-size: 1, arrays-per-manifest: null, overflow-to: null, split-oversized: null}
  rules:
  - {target: a, path: null, metadata-chunks: null, initialized-chunks: null}
  preload: {max-manifest-size: null, max-manifests: null, arrays: null}
"""

    assert read(null) == read(absent)
    assert read("chunk-manifests: {sets: null, rules: null, preload: null}") is None
    assert read("chunk-manifests: null") is None
    unlimited = read("chunk-manifests: {sets: [{a: {max-size: 1, cardinality: null}}]}")
    assert unlimited == ChunkManifests((ManifestSet("a", 1, cardinality=None),))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("7", "chunk-manifests: a int is not a mapping"),
        ("{colour: 1}", "chunk-manifests.colour: is unknown; there are sets, rules, preload"),
        ("{sets: {a: 1}}", "chunk-manifests.sets: a dict is not a list"),
        ("{sets: [a]}", "chunk-manifests.sets[0]: is not the name of a set with its settings"),
        ("{sets: [{a: {}, b: {}}]}", "chunk-manifests.sets[0]: is not the name of a set"),
        ("{sets: [{a: 5}]}", "chunk-manifests.sets[0].a: a int is not a mapping"),
        ("{sets: [{a: {size: 5}}]}", "chunk-manifests.sets[0].a.size: is unknown"),
        ("{sets: [{a: {max_manifest_size: 5}}]}", "sets[0].a.max_manifest_size: is unknown"),
        ("{sets: [{a: {max-size: 5, max-manifest-size: 5}}]}", "max-manifest-size is given twice"),
        ("{sets: [{a: {max-size: 1.5}}]}", "sets[0].a.max-manifest-size: 1.5 is not a whole"),
        ("{sets: [{a: {max-size: big}}]}", "sets[0].a.max-manifest-size: 'big' is not a whole"),
        ("{sets: [{a: {max-size: 1, overflow-to: 3}}]}", "a.overflow-to: 3 is not a text"),
        ("{sets: [{a: }]}", "sets[0].a: has neither max-manifest-size nor arrays-per-manifest"),
        ("{sets: [{default: {cardinality: 1}}]}", "default.cardinality: the set default takes any"),
        ("{sets: [{default: {split-oversized: 1}}]}", "split-oversized: 1 is not true or false"),
        ("{rules: [{path: x}]}", "chunk-manifests.rules[0].target: is missing"),
        ("{rules: [{target: a, when: b}]}", "chunk-manifests.rules[0].when: is unknown"),
        ("{rules: [3]}", "chunk-manifests.rules[0]: a int is not a mapping"),
        ("{rules: [{target: default, metadata-chunks: [1]}]}", "[0].metadata-chunks: [1] is not a"),
        ("{rules: [{target: default, metadata-chunks: 1}]}", "[0].metadata-chunks: 1 is not a"),
        ("{preload: {arrays: [x]}}", "chunk-manifests.preload.arrays[0]: a str is not a mapping"),
        ("{preload: {arrays: [{}]}}", "chunk-manifests.preload.arrays[0].path: is missing"),
        ("{preload: {arrays: [{path: 3}]}}", "preload.arrays[0].path: 3 is not a text"),
        ("{preload: {max-manifests: -1}}", "preload.max-manifests: -1 is not in 1.."),
    ],
)
def test_a_fault_is_named_by_its_path(content: str, expected: str):
    assert expected in faults_in(f"chunk-manifests: {content}")


def test_all_faults_are_in_one_error_and_each_of_them_once():
    message = faults_in("""
chunk-manifests:
  sets:
  - a: {max-size: x, colour: 1, overflow-to: b}
  - b: {max-size: 1, overflow-to: a}
  rules: [{target: c, path: '('}]
inline_chunk_threshold_bytes: -1
""")

    assert [part.split(": ")[0] for part in message.split("invalid configuration: ")[1].split("; ")
            if ": " in part] == [
        "chunk-manifests.sets[0].a.colour",
        "chunk-manifests.sets[0].a.max-manifest-size",
        "chunk-manifests.sets[0].a.overflow-to",
        "chunk-manifests.rules[0].path",
        "chunk-manifests.rules[0].target",
        "inline_chunk_threshold_bytes",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [FULL, DEFAULT_CHUNK_MANIFESTS], ids=["full", "default"])
def test_every_setting_comes_back_from_every_form(value: ChunkManifests):
    config = config_of(value)
    copy = encode_extension(config)
    assert copy is not None

    assert decode_config_yaml(encode_config_yaml(config), name="y").chunk_manifests == value
    assert decode_config_flex(encode_config_flex(config), name="f").chunk_manifests == value
    assert from_yaml(show_config(config)[0]).chunk_manifests == value
    assert with_extension(RepositoryConfig(), copy, name="c").chunk_manifests == value


def test_it_is_stored_under_our_key_and_shown_at_the_top():
    config = config_of(FULL)
    config.inline_chunk_threshold_bytes = 3

    stored: dict[str, Any] = decode_flex(encode_config_flex(config), name="f")
    text, shown = show_config(config)

    assert stored.keys() == {"inline_chunk_threshold_bytes", "icestream"}
    assert stored["icestream"].keys() == {"version", "chunk-manifests"}
    assert list(shown) == ["chunk-manifests", "inline_chunk_threshold_bytes"]
    assert text.startswith("chunk-manifests:\n")
    assert shown["chunk-manifests"] == stored["icestream"]["chunk-manifests"]
    assert shown["chunk-manifests"]["sets"] == [
        {"a b": {"max-manifest-size": 7, "cardinality": None, "overflow-to": "c"}},
        {"c": {"arrays-per-manifest": 3}},
        {"d": {"max-manifest-size": 1, "cardinality": 4}},
        {"default": {"max-manifest-size": 9, "split-oversized": False}},
    ]


def test_what_else_is_ours_stays_under_our_key_when_it_is_shown():
    config = config_of(FULL)
    config.default_containers = False

    _, shown = show_config(config)

    assert shown["icestream"] == {"version": 1, "default_containers": False}
    assert show_config(RepositoryConfig()) == ("{}\n", {})


@pytest.mark.parametrize("value", [None, ChunkManifests()])
def test_settings_that_were_taken_back_leave_nothing(value: ChunkManifests | None):
    config = config_of(FULL)
    config.chunk_manifests = value

    assert encode_extension(config) is None
    assert encode_config_yaml(config) == b"{}\n"


def test_two_places_at_once_are_a_fault():
    message = faults_in("""
chunk-manifests: {preload: {}}
icestream: {chunk-manifests: {preload: {}}}
""")

    assert "chunk-manifests: is at the top and under icestream too" in message
    assert "is written chunk-manifests" in faults_in("icestream: {chunk_manifests: {}}")


def test_stored_settings_with_faults_are_a_warning_and_survive_until_they_are_replaced():
    with pytest.warns(UserWarning, match=r"chunk-manifests\.colour: is unknown"):
        config = from_yaml("icestream: {version: 7, chunk-manifests: {colour: 1}}")

    assert config.chunk_manifests is None
    stored: dict[str, Any] = decode_flex(encode_config_flex(config), name="f")
    assert stored["icestream"] == {"version": 7, "chunk-manifests": {"colour": 1}}
    config.chunk_manifests = ChunkManifests((ManifestSet("a", 1),))
    replaced: dict[str, Any] = decode_flex(encode_config_flex(config), name="f")
    assert replaced["icestream"]["chunk-manifests"] == {"sets": [{"a": {"max-manifest-size": 1}}]}
