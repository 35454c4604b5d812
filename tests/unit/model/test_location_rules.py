"""Which arrays have the locations of their virtual chunks compressed."""

import pickle

from icestream.model.config import RepositoryConfig
from icestream.model.extension_config import LocationCompressionRule
from icestream.model.location_rules import LocationRules, location_rules
from icestream.model.manifest_conditions import ManifestSplitCondition
from icestream.model.manifest_config import (
    ManifestConfig,
    ManifestVirtualChunkLocationCompressionConfig,
)
from icestream.model.manifests import LocationCompression

Settings = ManifestVirtualChunkLocationCompressionConfig


def rules_of(*rules: LocationCompressionRule, general: Settings | None = None) -> LocationRules:
    manifest = (
        None if general is None else ManifestConfig(virtual_chunk_location_compression=general)
    )
    config = RepositoryConfig(manifest=manifest)
    config.location_compression_rules = rules
    return location_rules(config)


def rule(regex: str, *, enabled: bool | None = None, **settings: int) -> LocationCompressionRule:
    arrays = ManifestSplitCondition.path_matches(regex)
    return LocationCompressionRule(arrays, enabled, Settings(**settings) if settings else None)


def test_nothing_is_compressed_unless_the_configuration_asks_for_it() -> None:
    assert location_rules(RepositoryConfig()).of("/a") is None
    assert location_rules(RepositoryConfig(manifest=ManifestConfig())).of("/a") is None


def test_the_settings_of_the_repository_are_for_all_arrays() -> None:
    general = Settings(
        9,
        dictionary_max_training_samples=8,
        dictionary_max_size_bytes=700,
        compression_level=6,
    )

    assert rules_of(general=general).of("/any/array") == LocationCompression(9, 8, 700, 6)
    assert rules_of(general=Settings()).of("/any/array") == LocationCompression()


def test_the_first_rule_that_matches_decides() -> None:
    rules = rules_of(
        rule("^/raw/", enabled=False), rule("^/raw/x$", compression_level=9), general=Settings()
    )

    assert rules.of("/raw/x") is None
    assert rules.of("/other/raw") == LocationCompression()


def test_a_rule_turns_compression_on_for_some_arrays() -> None:
    rules = rules_of(rule("^/objects/"))

    assert rules.of("/objects/a") == LocationCompression()
    assert rules.of("/files/a") is None


def test_what_a_rule_leaves_open_is_that_of_the_repository() -> None:
    rules = rules_of(rule("^/a$", compression_level=9), general=Settings(50))

    assert rules.of("/a") == LocationCompression(min_num_chunks=50, level=9)


def test_a_rule_without_a_condition_is_for_all_arrays() -> None:
    assert rules_of(LocationCompressionRule(enabled=True)).of("/a") == LocationCompression()


def test_a_shared_manifest_is_compressed_if_all_its_arrays_are() -> None:
    rules = rules_of(rule("^/plain$", enabled=False), general=Settings())

    assert rules.of("/a", "/b") == LocationCompression()
    assert rules.of("/a", "/plain") is None
    assert rules.of() is None


def test_rules_can_be_pickled() -> None:
    rules = rules_of(rule("^/a$", enabled=False), general=Settings(7))

    assert pickle.loads(pickle.dumps(rules)) == rules
