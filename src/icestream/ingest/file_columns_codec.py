"""Columns of files as plain columns and a document: the larger part of what a run leaves behind."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, FormatError
from icestream.ingest.column_bundles import ColumnBundle, differences
from icestream.ingest.coordinate_pools import CoordinatePool, ValueKind, small_digests
from icestream.ingest.facts import DIGEST_SIZE, ArrayForm
from icestream.ingest.file_columns import ArrayColumns, FileColumns

_WORDS_OF_DIGEST = DIGEST_SIZE // 8
_TEXT = pa.large_string()


def columns_bundle(files: FileColumns) -> ColumnBundle:
    """Return columns and a document that hold everything."""
    columns = {
        "urls": pa.array(files.urls, _TEXT),
        "sizes": differences(files.sizes),
        "etags": files.etags,
        "last_modified": differences(files.last_modified),
        "num_references": differences(files.num_references),
        "num_referenced_bytes": differences(files.num_referenced_bytes),
    }
    arrays = []
    for i, (path, array) in enumerate(files.arrays.items()):
        columns |= {f"{i}.{name}": column for name, column in _array_columns(array).items()}
        arrays.append({"path": path, **_array_document(array)})
    document = {
        "arrays": arrays,
        "groups": [
            {"path": path, "file": files.group_file[path], "attributes": attributes}
            for path, attributes in files.groups.items()
        ],
        "faults": [[row, path, fault] for (row, path), fault in files.faults.items()],
    }
    return ColumnBundle(columns, document)


def bundled_columns(bundle: ColumnBundle) -> FileColumns:
    """Return the columns of files that are in a bundle.

    Raises:
        FormatError: Something is missing.
    """
    try:
        return _bundled_columns(bundle)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"the columns of files do not fit together: {error!r}", kind=ErrorKind.DESERIALIZATION
        ) from error


def _bundled_columns(bundle: ColumnBundle) -> FileColumns:
    document = bundle.document
    groups = document["groups"]
    return FileColumns(
        urls=tuple(bundle.column("urls").to_pylist()),
        arrays={
            part["path"]: _bundled_array(_Columns(bundle, f"{i}."), part)
            for i, part in enumerate(document["arrays"])
        },
        groups={part["path"]: part["attributes"] for part in groups},
        group_file={part["path"]: part["file"] for part in groups},
        sizes=bundle.integers("sizes"),
        etags=bundle.column("etags"),
        last_modified=bundle.integers("last_modified"),
        num_references=bundle.integers("num_references"),
        num_referenced_bytes=bundle.integers("num_referenced_bytes"),
        faults={(row, path): fault for row, path, fault in document["faults"]},
    )


# -- one array -------------------------------------------------------------------------------------


def _array_columns(array: ArrayColumns) -> dict[str, pa.Array]:
    pool = array.values
    is_large = np.diff(pool.start) > _WORDS_OF_DIGEST
    return {
        "files": differences(array.files),
        "form": differences(array.form),
        "shape": differences(array.shape.T),
        "num_references": differences(array.num_references),
        "content": differences(array.content),
        "contents": pa.array(array.contents.reshape(-1)),
        "value": differences(array.value),
        "pool.kind": differences(pool.kind),
        "pool.shape": differences(pool.shape.T),
        "pool.digest": pa.array(pool.digest[is_large].reshape(-1)),
        "pool.origin": differences(pool.origin),
        "pool.reference": pool.reference,
        "pool.start": differences(pool.start),
        "pool.words": differences(pool.words.view(np.int64)),
    }


def _array_document(array: ArrayColumns) -> dict[str, Any]:
    return {
        "forms": [_form_document(form) for form in array.forms],
        "metadata": list(array.metadata),
        "rank": array.shape.shape[1],
        "kinds": [list(kind) for kind in array.values.kinds],
        "pool_rank": array.values.shape.shape[1],
    }


class _Columns:
    """The columns of one array."""

    def __init__(self, bundle: ColumnBundle, prefix: str) -> None:
        self._bundle = bundle
        self._prefix = prefix

    def plain(self, name: str) -> pa.Array:
        return self._bundle.column(self._prefix + name)

    def integers(self, name: str) -> npt.NDArray[np.int64]:
        return self._bundle.integers(self._prefix + name)

    def codes(self, name: str) -> npt.NDArray[np.int32]:
        return self.integers(name).astype(np.int32)

    def shapes(self, name: str, rank: int, count: int) -> npt.NDArray[np.int64]:
        return np.ascontiguousarray(self.integers(name).reshape(rank, count).T)

    def digests(self, name: str) -> npt.NDArray[np.uint8]:
        flat: npt.NDArray[np.uint8] = self.plain(name).to_numpy(zero_copy_only=False)
        return flat.reshape(-1, DIGEST_SIZE)


def _bundled_array(columns: _Columns, document: Mapping[str, Any]) -> ArrayColumns:
    files = columns.integers("files").astype(np.intp)
    return ArrayColumns(
        files=files,
        form=columns.codes("form"),
        forms=tuple(map(_form, document["forms"])),
        metadata=tuple(document["metadata"]),
        shape=columns.shapes("shape", document["rank"], len(files)),
        num_references=columns.integers("num_references"),
        content=columns.codes("content"),
        contents=columns.digests("contents"),
        value=columns.codes("value"),
        values=_bundled_pool(columns, document),
    )


def _bundled_pool(columns: _Columns, document: Mapping[str, Any]) -> CoordinatePool:
    start = columns.integers("pool.start")
    words = columns.integers("pool.words").view(np.uint64)
    digest = small_digests(start, words)
    digest[np.diff(start) > _WORDS_OF_DIGEST] = columns.digests("pool.digest")
    return CoordinatePool(
        columns.codes("pool.kind"),
        tuple(ValueKind(*kind) for kind in document["kinds"]),
        columns.shapes("pool.shape", document["pool_rank"], len(start) - 1),
        digest,
        columns.integers("pool.origin"),
        columns.plain("pool.reference"),
        start,
        words,
    )


def _form_document(form: ArrayForm) -> dict[str, Any]:
    return {
        "dimensions": form.dimensions,
        "lengths": form.lengths,
        "data_type": form.data_type,
        "codecs": form.codecs,
        "chunk_shape": form.chunk_shape,
        "fill_value": form.fill_value,
        "attributes": form.attributes,
        "values": form.values,
    }


def _form(document: Mapping[str, Any]) -> ArrayForm:
    return ArrayForm(
        dimensions=tuple(document["dimensions"]),
        lengths=tuple(document["lengths"]),
        data_type=document["data_type"],
        codecs=document["codecs"],
        chunk_shape=tuple(document["chunk_shape"]),
        fill_value=document["fill_value"],
        attributes=tuple((key, text) for key, text in document["attributes"]),
        values=document["values"],
    )
