"""Arrays that stay in their files: in which chunks of the whole array each file's chunks go."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icestream.ingest.file_columns import NOWHERE, Lengths, Rows
from icestream.ingest.placement.boxes import Boxes
from icestream.ingest.placement.problems import Problem, ProblemKind, problem

_COPY_ALL = (
    "on-mismatch does not help where files share chunks; load the variable (loaded: ...) to copy "
    "all of it, or exclude such files"
)
_OTHER_FORM = (
    "it has another form, and on-mismatch: materialise copies whole chunks only; declare "
    "on-mismatch: era or set-aside"
)
_KEY_ENCODING = {"name": "default", "configuration": {"separator": "/"}}


@dataclass(frozen=True, slots=True, eq=False)
class VirtualArray:
    """An array whose chunks are in files."""

    path: str
    """In the files."""
    metadata: Mapping[str, Any]
    """The document zarr.json of the whole array."""
    files: Rows
    """Rows of the files that supply chunks."""
    chunk_offset: Lengths
    """(n, rank) index of the first chunk of each of these files."""
    chunk_extent: Lengths
    """(n, rank) chunks of each of these files."""
    num_new: int = 0
    """Dimensions in front that files do not have."""
    differing: Rows | None = None
    """Files of another form, whose values are to be copied into the array."""
    differing_start: Lengths | None = None
    """(n, rank) first element of each of these files in the whole array."""
    differing_extent: Lengths | None = None
    """(n, rank) chunks of each of these files."""


def place_virtual(
    path: str,
    boxes: Boxes,
    urls: Sequence[str],
    *,
    every: Boxes | None = None,
    is_constant: bool = False,
) -> tuple[VirtualArray, list[Problem]]:
    """Return the whole array of many files, and what is wrong with it.

    Args:
        path: Of the array.
        boxes: Where files go.
        urls: Of all files.
        every: Where files of other forms go too, which are copied; behind those of `boxes`.
        is_constant: The array is known to be the same in all files that share a place.
    """
    form = boxes.array.forms[boxes.array.form[0]] if len(boxes.array.files) else None
    chunk_shape = (*(1,) * boxes.num_new, *(form.chunk_shape if form else boxes.shape))
    every = every or boxes
    suppliers, number = every.supplied()
    problems = [
        *_alignment_problems(path, every, chunk_shape, urls, num_usual=len(boxes.start)),
        *_repetition_problems(path, every, number, urls, is_constant=is_constant),
        *_overlap_problems(path, every, every.overlapping(suppliers, chunk_shape), urls),
    ]
    document = boxes.array.metadata[boxes.array.form[0]] if form else {}
    metadata, fault = _grown(document, boxes, chunk_shape)
    if fault:
        rows = boxes.array.files.tolist()
        problems.append(problem(ProblemKind.INEXPRESSIBLE, path, fault, urls=urls, rows=rows))
    is_usual = suppliers < len(boxes.start)
    usual, unusual = suppliers[is_usual], suppliers[~is_usual]
    sizes = np.maximum(np.array(chunk_shape, np.int64), 1)
    virtual = VirtualArray(
        path,
        metadata,
        boxes.array.files[usual],
        boxes.start[usual] // sizes,
        -(-boxes.length[usual] // sizes),
        boxes.num_new,
    )
    if len(unusual):
        virtual = replace(
            virtual,
            differing=every.array.files[unusual],
            differing_start=every.start[unusual],
            differing_extent=-(-every.length[unusual] // sizes),
        )
    return virtual, problems


def _alignment_problems(
    path: str,
    boxes: Boxes,
    chunk_shape: Sequence[int],
    urls: Sequence[str],
    *,
    num_usual: int,
) -> Iterator[Problem]:
    """Yield dimensions along which files do not start and end where chunks do."""
    for dim, axis in enumerate(boxes.axes):
        if axis is None or chunk_shape[dim] <= 1:
            continue
        size, start = chunk_shape[dim], boxes.start[:, dim]
        stop = start + boxes.length[:, dim]
        is_partial = (stop % size != 0) & (stop != axis.size)
        is_askew = start % size != 0
        if is_partial.any():
            row = int(np.flatnonzero(is_partial)[0])
            remedy = _COPY_ALL if row < num_usual else _OTHER_FORM
            length = int(boxes.length[row, dim])
            reason = (
                f"a file has {length} along {axis.dimension}, which chunks of {size} do not "
                f"divide; only the last file may end with a part of a chunk; {remedy}"
            )
            rows = boxes.array.files[is_partial].tolist()
            yield problem(ProblemKind.PARTIAL_CHUNK, path, reason, urls=urls, rows=rows)
        elif is_askew.any():
            row = int(np.flatnonzero(is_askew)[0])
            remedy = _COPY_ALL if row < num_usual else _OTHER_FORM
            reason = (
                f"a file starts at position {start[row]} of {axis.dimension}, which is not where "
                f"a chunk of {size} starts; {remedy}, or correct the step"
            )
            rows = boxes.array.files[is_askew].tolist()
            yield problem(ProblemKind.UNALIGNED, path, reason, urls=urls, rows=rows)


def _repetition_problems(
    path: str,
    boxes: Boxes,
    number: Rows,
    urls: Sequence[str],
    *,
    is_constant: bool,
) -> Iterator[Problem]:
    """Yield boxes that several files claim, unless all say the same."""
    counts = np.bincount(number)
    shared = counts[number] > 1
    if not shared.any():
        return
    files = boxes.array.files
    if not boxes.is_repeated:
        first = files[number == number[np.flatnonzero(shared)[0]]]
        reason = "several files have the same position; exclude all but one"
        rows = [*first.tolist(), *np.setdiff1d(files[shared], first).tolist()]
        yield problem(ProblemKind.DUPLICATE, path, reason, urls=urls, rows=rows)
        return
    content = boxes.array.content
    is_unknown = shared & (content == NOWHERE)
    if is_unknown.any() and not is_constant:
        reason = (
            "it is in several files, and nothing tells that it is the same in all; load it "
            "(loaded: ...) to compare its values, or declare it (constant: ...)"
        )
        rows = files[is_unknown].tolist()
        yield problem(ProblemKind.UNCHECKED_CONSTANT, path, reason, urls=urls, rows=rows)
    first_row = np.zeros(len(counts), np.intp)
    first_row[number[::-1]] = np.arange(len(number))[::-1]
    differs = (content != NOWHERE) & (content != content[first_row[number]])
    if differs.any() and not is_constant:
        reason = f"its value differs from that in {urls[files[first_row[number[differs][0]]]]}"
        rows = files[differs].tolist()
        yield problem(ProblemKind.UNEQUAL_VALUES, path, reason, urls=urls, rows=rows)


def _overlap_problems(
    path: str, boxes: Boxes, overlapping: Rows, urls: Sequence[str]
) -> Iterator[Problem]:
    if len(overlapping):
        reason = "files overlap: they have chunks at the same place; exclude some of them"
        rows = boxes.array.files[overlapping].tolist()
        yield problem(ProblemKind.OVERLAP, path, reason, urls=urls, rows=rows)


def _grown(
    document: Mapping[str, Any], boxes: Boxes, chunk_shape: Sequence[int]
) -> tuple[dict[str, Any], str | None]:
    """Return the metadata of the whole array, and what keeps it from being right."""
    names = document.get("dimension_names") or [None] * (len(boxes.shape) - boxes.num_new)
    new = [axis.dimension for axis in boxes.axes[: boxes.num_new] if axis is not None]
    codecs, fault = _lifted(document.get("codecs", ()), boxes.num_new)
    grown = {
        **document,
        "shape": list(boxes.shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": _KEY_ENCODING,
        "codecs": codecs,
        "dimension_names": [*new, *names],
    }
    return grown, fault


def _lifted(codecs: Sequence[Any], num_new: int) -> tuple[list[Any], str | None]:
    """Return codecs for chunks with dimensions of length 1 in front."""
    if not num_new:
        return list(codecs), None
    lifted = []
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, Mapping) else codec
        if name == "sharding_indexed":
            return list(codecs), "chunks in shards cannot get a new dimension; load the variable"
        lifted.append(_lifted_transpose(codec, num_new) if name == "transpose" else codec)
    return lifted, None


def _lifted_transpose(codec: Mapping[str, Any], num_new: int) -> dict[str, Any]:
    order = [*range(num_new), *(i + num_new for i in codec["configuration"]["order"])]
    return {**codec, "configuration": {"order": order}}
