"""A first declaration of an archive, written from a look at some of its files, to be edited."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from icestream.ingest.declaration.archives import Archive, Axis, Combination, PlaceBy, Target
from icestream.ingest.declaration.documents import VERSION, archive_tree
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.facts import Coordinate, facts_of
from icestream.ingest.times.encodings import are_time_units
from icestream.ingest.times.units import MICROS_PER_UNIT
from icestream.parsers.scanned_files import ScannedFile

_DATES = (
    (r"(?P<time>\d{8}T\d{6})", "%Y%m%dT%H%M%S"),
    (r"(?P<time>\d{4}-\d{2}-\d{2})", "%Y-%m-%d"),
    (r"(?P<time>(?:18|19|20|21)\d{8})", "%Y%m%d%H"),
    (r"(?P<time>(?:18|19|20|21)\d{6})", "%Y%m%d"),
    (r"(?P<time>\d{4}-\d{2})", "%Y-%m"),
    (r"(?P<time>(?:18|19|20|21)\d{4})", "%Y%m"),
    (r"(?P<time>(?:18|19|20|21)\d{2})", "%Y"),
)
"""Dates in names, the most telling first."""
_WORDS_OF_YAML = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


@dataclass(frozen=True, slots=True)
class _Guess:
    """How files seem to combine, and why."""

    axis: Axis | None
    why: str
    step: str | None = None


def draft_declaration(
    name: str,
    sources: Sequence[str],
    repository: str,
    files: Sequence[ScannedFile],
    *,
    access: Sequence[SourcePlace] = (),
) -> str:
    """Return a commented YAML document that declares an archive.

    Args:
        name: Of the archive.
        sources: Folders, or URLs with wildcards.
        repository: URL or path of the target.
        files: Some files of the archive, with the values of their coordinates.
        access: How the files were reached, if more than their URLs was needed.
    """
    guess = _guess(files)
    along = () if guess.axis is None else (guess.axis,)
    draft = Archive(
        name=name,
        sources=tuple(sources),
        access=tuple(access),
        target=Target(repository=repository),
        combine=Combination(along=along),
    )
    return "\n".join([*_head(draft, files), *_combine_lines(guess), *_rest(draft, files, guess)])


# -- guessing --------------------------------------------------------------------------------------


def _guess(files: Sequence[ScannedFile]) -> _Guess:
    coordinates = _differing_coordinates(files)
    if coordinates:
        name = next(
            (n for n, found in coordinates.items() if found[0].time), next(iter(coordinates))
        )
        step = _step_between(coordinates[name])
        return _Guess(Axis(dimension=name), f"the values of {name} differ between files", step)
    for pattern, form in _DATES:
        found = [re.search(pattern, file.url.rpartition("/")[2]) for file in files]
        texts = {match["time"] for match in found if match}
        if len(files) > 1 and all(found) and len(texts) == len(files):
            dimension = "time"
            axis = Axis(
                dimension=dimension,
                by=PlaceBy.NAME,
                pattern=pattern,
                format=form,
                new=not any(
                    dimension in a.dimension_names for f in files for a in f.arrays.values()
                ),
            )
            return _Guess(axis, "names of files hold dates, and no coordinate tells files apart")
    return _Guess(None, "no dimension tells files apart: their variables are merged")


def _differing_coordinates(files: Sequence[ScannedFile]) -> Mapping[str, list[Coordinate]]:
    """Return by dimension the coordinates that are in all files, and not equal in all."""
    blank = Archive(name="draft", sources=(), target=Target(repository=""))
    values = [facts_of(file, blank).values for file in files]
    found: dict[str, list[Coordinate]] = {}
    for path, array in files[0].arrays.items() if files else ():
        name = path.removeprefix("/")
        if array.dimension_names != (name,) or not all(path in file for file in values):
            continue
        coordinates = [file[path] for file in values]
        if len({coordinate.key for coordinate in coordinates}) > 1:
            found[name] = coordinates
    return found


def _step_between(coordinates: Sequence[Coordinate]) -> str | None:
    """Return the distance of neighbours, if it is the same for all."""
    distinct = np.unique(np.concatenate([c.values for c in coordinates]))
    steps = np.unique(np.diff(distinct))
    if len(steps) != 1:
        return None
    if coordinates[0].time is None:
        return f"{float(steps[0]):g}"
    units = ((unit, n) for unit, n in reversed(MICROS_PER_UNIT.items()) if not int(steps[0]) % n)
    unit, size = next(units)
    count = int(steps[0]) // size
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _worth_loading(files: Sequence[ScannedFile], along: str | None) -> dict[str, str]:
    """Return variables that are better copied, with reasons."""
    arrays = {path: array for file in files for path, array in file.arrays.items()}
    auxiliary = {
        word
        for array in arrays.values()
        for word in str(array.attributes.get("coordinates", "")).split()
    }
    reasons: dict[str, str] = {}
    for path, array in arrays.items():
        bounds = array.attributes.get("bounds")
        if isinstance(bounds, str) and f"/{bounds}" in arrays:
            reasons[bounds] = f"bounds of {path[1:]}"
        name = path.rpartition("/")[2]
        if name in auxiliary and array.dimension_names != (name,):
            reasons.setdefault(name, "a coordinate of other variables")
        if are_time_units(array.attributes.get("units")) and array.dimension_names != (name,):
            reasons.setdefault(name, "counts time, in units that may differ between files")
        if along is not None and along not in array.dimension_names and len(array.shape) > 1:
            reasons.setdefault(name, f"without {along}, so it should be the same in all files")
    return reasons


# -- writing ---------------------------------------------------------------------------------------


def _head(draft: Archive, files: Sequence[ScannedFile]) -> Iterator[str]:
    yield f"# Written from a look at {len(files)} files. Check it with `icestream archive scan`."
    yield f"version: {VERSION}"
    yield f"name: {_quoted(draft.name)}"
    yield ""
    yield "# Folders, or URLs with *, ? and ** in them. `exclude` takes the same."
    yield "sources:"
    yield from (f"  - {_quoted(source)}" for source in draft.sources)
    yield "# exclude:"
    yield ""
    yield from _access_lines(draft)
    yield ""
    yield "# The virtual chunk container that covers the files; any that does if left out."
    yield "# container: name"
    yield ""
    parsers = ", ".join(sorted({file.parser for file in files})) or "none"
    yield f"# Found by the first bytes of each file; those looked at: {parsers}."
    yield "parser: auto"
    yield ""


def _access_lines(draft: Archive) -> Iterator[str]:
    yield "# How sources are reached, where their URLs do not tell; credentials have no place here."
    if not draft.access:
        yield '# access: [{prefix: "s3://bucket/", region: us-east-1, anonymous: true}]'
        return
    yield "access:"
    for place in archive_tree(draft)["access"]:
        told = (
            f"{key}: {_quoted(value) if isinstance(value, str) else 'true'}"
            for key, value in place.items()
        )
        yield f"  - {{{', '.join(told)}}}"


def _combine_lines(guess: _Guess) -> Iterator[str]:
    yield f"# How files combine: {guess.why}."
    yield "# `by` is coordinate (its values), name (a pattern in the URL) or order (of names)."
    if guess.axis is None:
        yield "combine: {}"
    else:
        yield "combine:"
        yield "  along:"
        yield f"    - dimension: {_quoted(guess.axis.dimension)}"
        yield f"      by: {guess.axis.by.value}"
        yield from _naming_lines(guess.axis)
        yield "      # With a step, missing files leave room, which reads as fill values."
        yield f"      # step: {guess.step or '1 day'}"
    yield ""


def _naming_lines(axis: Axis) -> Iterator[str]:
    if axis.pattern is not None and axis.format is not None:
        yield f"      pattern: {_quoted(axis.pattern)}"
        yield f"      format: {_quoted(axis.format)}"
    if axis.new:
        yield "      # Files lack the dimension: each is one position along it."
        yield "      new: true"


def _rest(draft: Archive, files: Sequence[ScannedFile], guess: _Guess) -> Iterator[str]:
    along = None if guess.axis is None or guess.axis.new else guess.axis.dimension
    reasons = _worth_loading(files, along)
    yield "# Copied into the repository, besides coordinates of dimensions; all else stays virtual."
    yield "loaded:" if reasons else "loaded: []"
    yield from (f"  - {_quoted(name)}  # {why}" for name, why in sorted(reasons.items()))
    yield "# Left out, for example because they differ between files for no reason."
    yield "drop: []"
    yield ""
    yield "# What happens with files that are not as hoped for."
    yield "policies:"
    yield "  on-broken: set-aside    # or fail"
    yield "  on-changed: update      # or keep, fail"
    yield "  on-vanished: keep       # or remove, fail"
    yield "  on-mismatch: fail       # or era, materialise, set-aside"
    yield ""
    yield "target:"
    yield f"  repository: {_quoted(draft.target.repository)}"
    yield f"  branch: {draft.target.branch}"
    yield "  # chunk-manifests: and splits: (chunks per manifest along dimensions) may follow"
    yield ""
    yield "# The workspace of the ledger; beside the repository if left out."
    yield "# ledger: path"
    yield ""


def _quoted(text: str) -> str:
    """Return a text as YAML: plain words as they are, all others in quotes."""
    is_plain = re.fullmatch(r"[A-Za-z_][\w/.-]*", text) and text.lower() not in _WORDS_OF_YAML
    return text if is_plain else json.dumps(text, ensure_ascii=False)
