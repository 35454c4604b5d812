"""Tests that every parser must pass; the test class of a parser inherits them.

class TestMyParser(ParserSuite):
    parser = "my_package.parsers:MyParser"

    @pytest.fixture
    def sample(self, tmp_path):
        path = tmp_path / "a.xyz"
        ...
        return ParserSample(path, {"/temperature": values})
"""

import json
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from zarr.core.metadata.v3 import ArrayV3Metadata

from icestream.errors import IcestreamError
from icestream.model.chunk_refs import ChunkType, VirtualRef
from icestream.model.chunk_tables import is_strictly_ascending
from icestream.model.paths import parent_of
from icestream.parsers.array_values import read_values
from icestream.parsers.file_contents import Loading
from icestream.parsers.isolation import scan_file_isolated
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import AUTO, scan_file
from icestream.parsers.source_files import FindObject, SourceFile, absolute_url, checksum_of
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage

# ruff: noqa: S101, S301, D102 - a test suite; the names of its tests are sentences


@dataclass(frozen=True, slots=True)
class ParserSample:
    """A file, and what is in it by the word of another reader."""

    path: Path
    arrays: Mapping[str, npt.NDArray[Any]]
    """Stored values by path: neither scaled nor masked."""
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Attributes that arrays or groups must have, by path."""
    dimensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of dimensions, by path of the array."""


class ParserSuite:
    """What parsers promise; `sample` must be a fixture with a file of theirs."""

    parser: ClassVar[str] = AUTO
    reads_any_storage: ClassVar[bool] = True
    """Whether a file may be in any storage; some libraries read files and buckets only."""
    is_one_file: ClassVar[bool] = True
    """Whether all references are to the file itself."""

    @pytest.fixture
    def scanned(self, sample: ParserSample) -> ScannedFile:
        return scan_file(str(sample.path), parser=self.parser)

    def test_finds_every_array_and_says_nothing_is_missing(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        assert set(sample.arrays) <= set(scanned.arrays)
        assert [problem for problem in scanned.problems if problem.is_fatal] == []

    def test_every_array_is_in_a_group_that_is_there(self, scanned: ScannedFile) -> None:
        assert "/" in scanned.groups
        parents = {parent_of(path) for path in [*scanned.arrays, *scanned.groups]}
        assert parents <= set(scanned.groups)

    def test_metadata_is_what_zarr_reads_and_json_holds(self, scanned: ScannedFile) -> None:
        json.dumps(dict(scanned.groups))
        for array in scanned.arrays.values():
            document = json.loads(json.dumps(array.metadata))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # types beyond the specification
                parsed = ArrayV3Metadata.from_dict(document)
            assert parsed.shape == array.shape
            assert array.metadata["chunk_key_encoding"]["name"] == "default"
            assert len(array.chunk_shape) == len(array.shape) == len(array.dimension_names)

    def test_references_are_in_order_and_in_the_grid(self, scanned: ScannedFile) -> None:
        for array in scanned.arrays.values():
            table = array.references
            grid = [
                -(-length // chunk)
                for length, chunk in zip(array.shape, array.chunk_shape, strict=True)
            ]
            assert table.rank == len(array.shape)
            assert is_strictly_ascending(table.index) or len(table) <= 1
            assert (table.index < np.array(grid, np.int64)).all()

    def test_references_are_to_the_state_that_was_scanned(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        if not self.is_one_file:
            pytest.skip("references are to other files")
        assert scanned.url == absolute_url(str(sample.path))
        for ref in _virtual_refs(scanned):
            assert ref.location == scanned.url
            assert (ref.etag, ref.last_modified) == checksum_of(scanned.url, scanned.identity)
            assert ref.etag or ref.last_modified
            assert ref.length > 0
            assert ref.byte_offset + ref.length <= scanned.identity.size

    def test_values_behind_references_are_those_of_another_reader(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        source = _source(scanned)
        for path, expected in sample.arrays.items():
            _assert_equal(read_values(source, scanned.arrays[path]), expected)

    def test_attributes_and_dimensions_survive(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        for path, expected in sample.attributes.items():
            array = scanned.arrays.get(path)
            found = scanned.groups[path] if array is None else array.attributes
            assert {name: found.get(name) for name in expected} == dict(expected)
        for path, names in sample.dimensions.items():
            assert scanned.arrays[path].dimension_names == names

    def test_coordinates_are_read_on_the_way(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        loaded = {path for path in sample.arrays if Loading().wants(path, scanned.arrays[path])}
        assert loaded <= set(scanned.values)
        for path in loaded:
            _assert_equal(scanned.values[path], sample.arrays[path])

    def test_a_second_scan_finds_the_same(self, sample: ParserSample, scanned: ScannedFile) -> None:
        assert_same_scan(scan_file(str(sample.path), parser=self.parser), scanned)

    def test_a_scan_in_another_process_finds_the_same(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        assert_same_scan(scan_file_isolated(str(sample.path), parser=self.parser), scanned)

    def test_a_scan_can_be_sent_elsewhere(self, scanned: ScannedFile) -> None:
        assert_same_scan(pickle.loads(pickle.dumps(scanned)), scanned)

    def test_a_scan_through_a_storage_finds_the_same(
        self, sample: ParserSample, scanned: ScannedFile
    ) -> None:
        if not self.reads_any_storage:
            pytest.skip("reads files and buckets only")
        url = f"s3://bucket/{sample.path.name}"
        remote = scan_file(url, parser=self.parser, find_object=in_memory(sample.path))
        assert remote.identity.size == scanned.identity.size
        assert set(remote.arrays) == set(scanned.arrays)
        for path, array in remote.arrays.items():
            assert array.metadata == scanned.arrays[path].metadata
            assert _ranges(array.references) == _ranges(scanned.arrays[path].references)

    def test_a_file_that_was_cut_short_is_refused_or_its_gaps_are_named(
        self, sample: ParserSample, tmp_path: Path
    ) -> None:
        if sample.path.is_dir():
            pytest.skip("it is a folder")
        cut = tmp_path / f"cut{sample.path.suffix}"
        content = sample.path.read_bytes()
        for size in (0, 3, len(content) // 3):
            cut.write_bytes(content[:size])
            try:
                found = scan_file(str(cut), parser=self.parser)
            except IcestreamError:
                continue
            ends = [ref.byte_offset + ref.length for ref in _virtual_refs(found)]
            assert found.problems or not self.is_one_file or max(ends, default=0) <= size


def in_memory(path: Path) -> FindObject:
    """Return how to find the content of a file in a storage in memory, whatever the URL."""
    storage = InMemoryStorage()
    storage.put(path.name, path.read_bytes())

    def find(url: str) -> tuple[Storage, str]:
        return storage, url.rpartition("/")[2]

    return find


def assert_same_scan(found: ScannedFile, expected: ScannedFile) -> None:
    """Compare two scans of one file."""
    assert (found.url, found.identity, found.parser) == (
        expected.url,
        expected.identity,
        expected.parser,
    )
    assert found.groups == expected.groups
    assert found.problems == expected.problems
    assert list(found.arrays) == list(expected.arrays)
    for path, array in found.arrays.items():
        assert array.metadata == expected.arrays[path].metadata
        assert _rows(array.references) == _rows(expected.arrays[path].references)
    assert list(found.values) == list(expected.values)
    for path, values in found.values.items():
        _assert_equal(values, expected.values[path])


def _rows(table: Any) -> list[Any]:
    return [(tuple(index), table.ref(row)) for row, index in enumerate(table.index.tolist())]


def _ranges(table: Any) -> list[Any]:
    columns = (table.index, table.kind, table.byte_offset, table.length)
    return [column.tolist() for column in columns]


def _virtual_refs(scanned: ScannedFile) -> list[VirtualRef]:
    refs = [
        array.references.ref(int(row))
        for array in scanned.arrays.values()
        for row in np.flatnonzero(array.references.kind == ChunkType.virtual)
    ]
    return [ref for ref in refs if isinstance(ref, VirtualRef)]


def _source(scanned: ScannedFile) -> SourceFile:
    is_file = bool(scanned.identity.size)
    return SourceFile.open(scanned.url) if is_file else SourceFile.open_folder(scanned.url)


def _assert_equal(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
