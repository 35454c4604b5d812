"""Which arrays have the locations of their virtual chunks compressed, and how."""

from dataclasses import dataclass, replace

from icestream.model.config import RepositoryConfig
from icestream.model.manifest_conditions import ManifestSplitCondition
from icestream.model.manifest_config import ManifestVirtualChunkLocationCompressionConfig
from icestream.model.manifests import LocationCompression

ANY_ARRAY = ManifestSplitCondition.AnyArray()


@dataclass(frozen=True, slots=True)
class LocationRules:
    """How locations are compressed, array by array; None is not at all."""

    default: LocationCompression | None = None
    rules: tuple[tuple[ManifestSplitCondition, LocationCompression | None], ...] = ()
    """In order: the first that is for an array decides."""

    def of(self, *paths: str) -> LocationCompression | None:
        """Return how locations are compressed in a manifest of the arrays at these absolute paths.

        Arrays that share a manifest share its dictionary: it has one if it may for each of them.
        """
        wanted = [self._of_array(path) for path in paths]
        return wanted[0] if wanted and None not in wanted else None

    def _of_array(self, path: str) -> LocationCompression | None:
        matching = (settings for arrays, settings in self.rules if arrays.matches(path))
        return next(matching, self.default)


NO_LOCATION_COMPRESSION = LocationRules()


def location_rules(config: RepositoryConfig) -> LocationRules:
    """Return what a configuration says; where it says nothing, nothing is compressed."""
    manifest = config.manifest
    general = None if manifest is None else manifest.virtual_chunk_location_compression
    base = _settings(general, LocationCompression())
    rules = (
        (
            rule.arrays or ANY_ARRAY,
            None if rule.enabled is False else _settings(rule.settings, base),
        )
        for rule in config.location_compression_rules
    )
    return LocationRules(None if general is None else base, tuple(rules))


def _settings(
    given: ManifestVirtualChunkLocationCompressionConfig | None, base: LocationCompression
) -> LocationCompression:
    """Return the settings of `base` with everything that is given put over them."""
    if given is None:
        return base
    changes = {
        "min_num_chunks": given.min_num_chunks,
        "max_training_samples": given.dictionary_max_training_samples,
        "max_dictionary_bytes": given.dictionary_max_size_bytes,
        "level": given.compression_level,
    }
    return replace(base, **{name: value for name, value in changes.items() if value is not None})
