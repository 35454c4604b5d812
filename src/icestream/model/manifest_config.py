"""How manifests are preloaded, split and compressed."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from icestream.model.config_nodes import (
    I32,
    LIMIT_U16,
    POSITIVE_U32,
    U16,
    U32,
    ConfigNode,
    Fault,
    Part,
)
from icestream.model.manifest_conditions import (
    AnyDimCondition,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    regex_faults,
)

SplitRule = tuple[ManifestSplitCondition, tuple[tuple[AnyDimCondition, int], ...]]
"""For the arrays of the condition: how many chunks one manifest covers along dimensions."""

SplitSizes = tuple[SplitRule, ...]
"""Rules in order; the first that is for an array and a dimension decides."""


class PreloadRule:
    """A preload condition."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if isinstance(value, ManifestPreloadCondition):
            yield from value.faults(path)
        else:
            yield Fault(path, f"{value!r} is not a ManifestPreloadCondition")


class SplitSizesRule:
    """Rules that split arrays, as pairs."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        for i, pair in enumerate(value):
            at = f"{path}[{i}]"
            match pair:
                case (ManifestSplitCondition() as condition, [*dims]):
                    yield from condition.faults(f"{at}[0]")
                    for j, dim in enumerate(dims):
                        yield from self._dim_faults(dim, f"{at}[1][{j}]")
                case _:
                    yield Fault(at, f"{pair!r} is not a condition and a list of split sizes")

    def _dim_faults(self, value: Any, path: str) -> Iterator[Fault]:
        match value:
            case (ManifestSplitDimCondition.Axis(axis=axis), size):
                yield from U32.faults(axis, f"{path}.condition.Axis")
            case (ManifestSplitDimCondition.DimensionName(regex=regex), size):
                yield from regex_faults(regex, f"{path}.condition.DimensionName")
            case (ManifestSplitDimCondition.Any(), size):
                pass
            case _:
                yield Fault(path, f"{value!r} is not a dimension and a number of chunks")
                return
        yield from POSITIVE_U32.faults(size, f"{path}.num_chunks")


@dataclass(slots=True, repr=False)
class ManifestPreloadConfig(ConfigNode):
    """Which manifests are loaded as soon as a session opens, and how many at most."""

    max_total_refs: Annotated[int | None, U32] = None
    preload_if: Annotated[ManifestPreloadCondition | None, PreloadRule()] = None
    max_arrays_to_scan: Annotated[int | None, U32] = None


@dataclass(slots=True, repr=False)
class ManifestSplittingConfig(ConfigNode):
    """Where the references of an array are split over several manifests."""

    split_sizes: Annotated[SplitSizes | None, SplitSizesRule()] = None

    @staticmethod
    def from_dict(
        split_sizes: Mapping[ManifestSplitCondition, Mapping[AnyDimCondition, int]],
    ) -> "ManifestSplittingConfig":
        """Return the configuration with these rules, in the order of the mappings."""
        return ManifestSplittingConfig(
            tuple((condition, tuple(dims.items())) for condition, dims in split_sizes.items())
        )

    def to_dict(self) -> dict[ManifestSplitCondition, dict[AnyDimCondition, int]]:
        """Return the rules as a mapping."""
        return {condition: dict(dims) for condition, dims in self.split_sizes or ()}


@dataclass(slots=True, repr=False)
class ManifestVirtualChunkLocationCompressionConfig(ConfigNode):
    """How locations of virtual chunks are compressed, with a zstd dictionary per manifest."""

    min_num_chunks: Annotated[int | None, U16] = None
    _: KW_ONLY
    dictionary_max_training_samples: Annotated[int | None, U16] = None
    dictionary_max_size_bytes: Annotated[int | None, U32] = None
    compression_level: Annotated[int | None, I32] = None


@dataclass(slots=True, repr=False)
class ManifestConfig(ConfigNode):
    """How manifests are preloaded, split and compressed."""

    preload: Annotated[ManifestPreloadConfig | None, Part(ManifestPreloadConfig, merged=False)] = (
        None
    )
    splitting: Annotated[
        ManifestSplittingConfig | None, Part(ManifestSplittingConfig, merged=False)
    ] = None
    virtual_chunk_location_compression: Annotated[
        ManifestVirtualChunkLocationCompressionConfig | None,
        Part(ManifestVirtualChunkLocationCompressionConfig),
    ] = None
    max_concurrent_manifest_fetches_during_commit: Annotated[int | None, LIMIT_U16] = None
