"""Files come and go: columns of many files put together, or some files taken out of them.

There is no loop over files. What comes out is what `gather` makes of the same files, except that
metadata and attributes stay those of the file that they were first taken from when it goes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.coordinate_pools import (
    NOWHERE,
    CoordinatePool,
    concat_pools,
    stacked_shapes,
    trimmed_shapes,
)
from icestream.ingest.facts import ArrayForm
from icestream.ingest.file_columns import ArrayColumns, Codes, FileColumns, Rows, gather
from icestream.ingest.row_numbers import number_rows, renumber

_TEXT = pa.large_string()


def merge_columns(parts: Sequence[FileColumns]) -> FileColumns:
    """Return the files of all parts together, whatever the order of the parts.

    Raises:
        InvalidInputError: A file is in two parts.
    """
    if len(parts) < 2:  # noqa: PLR2004  one part is the whole
        return parts[0] if parts else gather(())
    urls, order = _sorted_urls(parts)
    row = np.empty(len(order), np.intp)
    row[order] = np.arange(len(order))
    ends = np.cumsum([len(part) for part in parts])
    rows = np.split(row, ends[:-1])
    groups = _first_groups(parts, rows)
    return FileColumns(
        urls=urls,
        arrays={path: _merged_array(found) for path, found in _by_path(parts, rows).items()},
        groups={path: found[1] for path, found in groups.items()},
        group_file={path: found[0] for path, found in groups.items()},
        sizes=np.concatenate([part.sizes for part in parts])[order],
        etags=pa.concat_arrays([part.etags for part in parts]).take(pa.array(order)),
        last_modified=np.concatenate([part.last_modified for part in parts])[order],
        num_references=np.concatenate([part.num_references for part in parts])[order],
        num_referenced_bytes=np.concatenate([part.num_referenced_bytes for part in parts])[order],
        faults=_merged_faults(
            ((int(at[row]), path), fault)
            for part, at in zip(parts, rows, strict=True)
            for (row, path), fault in part.faults.items()
        ),
    )


def without_files(files: FileColumns, urls: Collection[str]) -> FileColumns:
    """Return what is left when some files go; URLs that are not there are ignored.

    Metadata of forms and attributes of groups stay as they are, also where they are from a file
    that goes: nothing of what is left has changed.
    """
    gone = pa.array(list(urls), _TEXT)
    kept = ~pc.is_in(pa.array(files.urls, _TEXT), value_set=gone).to_numpy(zero_copy_only=False)
    return files if kept.all() else chosen_files(files, kept)


def chosen_files(files: FileColumns, chosen: npt.NDArray[np.bool_]) -> FileColumns:
    """Return some files."""
    new_row = np.cumsum(chosen) - 1
    last_row = int(chosen.sum()) - 1
    arrays = {}
    for path, array in files.arrays.items():
        held = chosen[array.files]
        if held.any():
            part = array.take(held)
            arrays[path] = _canonical(replace(part, files=new_row[part.files]))
    first = {path: int(new_row[row] + (not chosen[row])) for path, row in files.group_file.items()}
    groups = files.groups if last_row >= 0 else {}
    return FileColumns(
        urls=tuple(np.array(files.urls, np.object_)[chosen].tolist()),
        arrays=arrays,
        groups=groups,
        group_file={path: min(first[path], last_row) for path in groups},
        sizes=files.sizes[chosen],
        etags=files.etags.filter(pa.array(chosen)),
        last_modified=files.last_modified[chosen],
        num_references=files.num_references[chosen],
        num_referenced_bytes=files.num_referenced_bytes[chosen],
        faults={
            (int(new_row[row]), path): fault
            for (row, path), fault in files.faults.items()
            if chosen[row]
        },
    )


def _sorted_urls(parts: Sequence[FileColumns]) -> tuple[tuple[str, ...], Rows]:
    joined = [url for part in parts for url in part.urls]
    order = pc.sort_indices(pa.array(joined, _TEXT)).to_numpy().astype(np.intp)
    urls = tuple(np.array(joined, np.object_)[order].tolist())
    if len(set(urls)) < len(urls):
        twice = next(url for url, after in pairwise(urls) if url == after)
        raise InvalidInputError(f"{twice} is there twice", kind=ErrorKind.INVALID_ARGUMENT)
    return urls, order


def _merged_faults(
    faults: Iterable[tuple[tuple[int, str], str]],
) -> dict[tuple[int, str], str]:
    return dict(sorted(faults))


def _first_groups(
    parts: Sequence[FileColumns], rows: Sequence[Rows]
) -> dict[str, tuple[int, Mapping[str, Any]]]:
    """Return the attributes of each group with the first row that has it."""
    found: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for part, at in zip(parts, rows, strict=True):
        for path, row in part.group_file.items():
            if path not in found or at[row] < found[path][0]:
                found[path] = int(at[row]), part.groups[path]
    return {path: found[path] for path in sorted(found)}


# -- one array -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    array: ArrayColumns
    rows: Rows
    """Of its files in the whole."""


def _by_path(parts: Sequence[FileColumns], rows: Sequence[Rows]) -> dict[str, list[_Part]]:
    found: dict[str, list[_Part]] = {}
    for part, at in zip(parts, rows, strict=True):
        for path, array in part.arrays.items():
            found.setdefault(path, []).append(_Part(array, at[array.files]))
    return {path: found[path] for path in sorted(found)}


def _merged_array(parts: Sequence[_Part]) -> ArrayColumns:
    arrays = [part.array for part in parts]
    files = np.concatenate([part.rows for part in parts])
    order = np.argsort(files, kind="stable")
    form, forms, metadata = _joined_forms(arrays)
    content = _joined_codes([(array.content, len(array.contents)) for array in arrays])
    value = _joined_codes([(array.value, len(array.values)) for array in arrays])
    return _canonical(
        ArrayColumns(
            files=files[order],
            form=form[order],
            forms=forms,
            metadata=metadata,
            shape=stacked_shapes([array.shape for array in arrays])[order],
            num_references=np.concatenate([array.num_references for array in arrays])[order],
            content=content[order],
            contents=np.concatenate([array.contents for array in arrays]),
            value=value[order],
            values=concat_pools([array.values for array in arrays]),
        )
    )


def _joined_codes(columns: Sequence[tuple[Codes, int]]) -> Codes:
    """Return codes into pools that are put one behind the other."""
    first = np.cumsum([0, *(length for _, length in columns)])
    shifted = [
        np.where(codes == NOWHERE, NOWHERE, codes + at)
        for (codes, _), at in zip(columns, first, strict=False)
    ]
    return np.concatenate(shifted).astype(np.int32)


def _joined_forms(
    arrays: Sequence[ArrayColumns],
) -> tuple[Codes, tuple[ArrayForm, ...], tuple[Mapping[str, Any], ...]]:
    """Return forms one behind the other: there may be equal ones with different metadata."""
    form = _joined_codes([(array.form, len(array.forms)) for array in arrays])
    forms = tuple(form for array in arrays for form in array.forms)
    return form, forms, tuple(one for array in arrays for one in array.metadata)


def _canonical(array: ArrayColumns) -> ArrayColumns:
    """Return the array with everything there once, in order of appearance, and nothing unused."""
    form, used_forms = renumber(array.form)
    numbers: dict[ArrayForm, int] = {}
    lookup = [numbers.setdefault(array.forms[i], len(numbers)) for i in used_forms.tolist()]
    first_of_form = np.unique(np.array(lookup, np.int32), return_index=True)[1]
    content, contents = _distinct_contents(array)
    value, values = _distinct_values(array)
    return ArrayColumns(
        files=array.files,
        form=np.array(lookup, np.int32)[form],
        forms=tuple(numbers),
        metadata=tuple(array.metadata[i] for i in used_forms[first_of_form].tolist()),
        shape=trimmed_shapes(array.shape),
        num_references=array.num_references,
        content=content,
        contents=contents,
        value=value,
        values=values,
    )


def _distinct_contents(array: ArrayColumns) -> tuple[Codes, npt.NDArray[np.uint8]]:
    codes, used = renumber(array.content)
    contents = array.contents[used]
    numbers, first = number_rows([contents])
    return _translated(codes, numbers), contents[first]


def _distinct_values(array: ArrayColumns) -> tuple[Codes, CoordinatePool]:
    codes, used = renumber(array.value)
    keys = [column[used] for column in array.values.key_columns()]
    numbers, first = number_rows(keys)
    return _translated(codes, numbers), array.values.take(used[first])


def _translated(codes: Codes, numbers: Codes) -> Codes:
    """Return codes through a lookup, those below 0 as they are."""
    return codes if not len(numbers) else np.where(codes < 0, codes, numbers[codes])
