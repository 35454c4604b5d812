"""Names of dimensions: from scales, labels, the numbers of NetCDF, or made up."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from h5py import h5r

from icestream.model.paths import name_of, parent_of
from icestream.parsers.hdf5.attributes import RawAttributes
from icestream.parsers.plain_attributes import decoded_text, plain_value

_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
_HOMONYM = "_nc4_non_coord_"


def is_bare_dimension(raw: RawAttributes) -> bool:
    """Tell whether a dataset only stands for a dimension, and holds no values."""
    return _is_scale(raw) and raw.text("NAME").startswith(_NO_VARIABLE)


def variable_name(name: str) -> str:
    """Return the name of a variable; NetCDF gives another to one named as a dimension it lacks."""
    return name.removeprefix(_HOMONYM)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimensions of one dataset."""

    names: Sequence[str]
    scale_lengths: Sequence[int]
    """Lengths of their scales; zero where there is none."""


@dataclass(slots=True)
class DimensionNames:
    """Finds the dimensions of datasets."""

    file_id: Any
    by_number: dict[int, str] = field(default_factory=dict)
    """Paths of scales by the numbers that NetCDF gives to dimensions."""
    lengths: dict[str, int] = field(default_factory=dict)
    """Of scales, by path."""
    _made_up: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """Names and lengths of the dimensions that have no name in the file, by group."""

    def learn(self, datasets: Iterable[tuple[str, int, RawAttributes]]) -> None:
        """Take up the dimensions of the file: path, length and attributes of datasets."""
        numbered = []
        for path, length, raw in datasets:
            if _is_scale(raw):
                self.lengths[path] = length
                numbered += [(number, path) for number in raw.numbers("_Netcdf4Dimid")]
        # tools that copy datasets may leave a number twice, which then says nothing
        counts = Counter(number for number, _ in numbered)
        self.by_number = {number: path for number, path in numbered if counts[number] == 1}

    def of(self, path: str, shape: Sequence[int], raw: RawAttributes) -> Dimensions:
        """Return name and length of every dimension of a dataset; those without name get one."""
        scales = self._scales(path, len(shape), raw)
        names = [name_of(scale) for scale in scales] or self._labels(len(shape), raw)
        taken = {name for name in names if name}
        for axis, length in enumerate(shape):
            if not names[axis]:
                names[axis] = self._make_up(parent_of(path), length, taken)
                taken.add(names[axis])
        lengths = [self.lengths.get(scale, 0) for scale in scales] or [0] * len(shape)
        return Dimensions(names, lengths)

    def _scales(self, path: str, rank: int, raw: RawAttributes) -> list[str]:
        """Return the path of the scale of each dimension, empty where there is none."""
        numbers = raw.numbers("_Netcdf4Coordinates")
        if len(numbers) == rank and all(number in self.by_number for number in numbers):
            return [self.by_number[number] for number in numbers]
        scales = raw.read("DIMENSION_LIST")
        if scales is not None and len(scales) == rank:
            return [self._scale(entry) for entry in scales]
        return [path, *[""] * (rank - 1)] if _is_scale(raw) and rank else []

    def _labels(self, rank: int, raw: RawAttributes) -> list[str]:
        labels = raw.read("DIMENSION_LABELS")
        if labels is None or labels.size != rank:
            return [""] * rank
        return [str(label) for label in _as_list(plain_value(labels))]

    def _scale(self, references: Any) -> str:
        if references is None or not len(references):
            return ""
        path = h5r.get_name(references[0], self.file_id)
        if not path:
            return ""
        group, _, name = decoded_text(path).rpartition("/")
        return f"{group}/{variable_name(name)}"

    def _make_up(self, group: str, length: int, taken: set[str]) -> str:
        known: Mapping[str, int] = self._made_up[group]
        for name, its_length in known.items():
            if its_length == length and name not in taken:
                return name
        name = f"phony_dim_{len(known)}"
        self._made_up[group][name] = length
        return name


def _is_scale(raw: RawAttributes) -> bool:
    return raw.text("CLASS") == "DIMENSION_SCALE"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
