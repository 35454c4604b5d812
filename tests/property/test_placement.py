"""Random archives: the order of files does not matter, and every chunk lands exactly once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest_builders import archive, planned, scanned_file, virtual_array
from tests.placed_references import reference_tables

from icestream.ingest.declaration.archives import Axis, PlaceBy
from icestream.ingest.placement.placing import Placement
from icestream.parsers.scanned_files import ScannedFile

AXES = [
    Axis(dimension="time"),
    Axis(dimension="time", step="1"),
    Axis(dimension="time", by=PlaceBy.NAME, pattern=r"(?P<time>\d+)", format="integer"),
    Axis(dimension="time", by=PlaceBy.NAME, pattern=r"(?P<time>\d+)", format="number", step="1"),
    Axis(dimension="time", by=PlaceBy.ORDER),
]


@st.composite
def archives_of_files(draw: st.DrawFn) -> list[ScannedFile]:
    """Draw files that lie behind each other in whole chunks, with gaps; some lack a variable."""
    chunk = draw(st.integers(1, 3))
    files = []
    position = 0
    for _ in range(draw(st.integers(1, 8))):
        position += chunk * draw(st.integers(0, 2))
        length = chunk * draw(st.integers(1, 3))
        url = f"s3://b/{position}.nc"
        arrays = {"a": virtual_array(url, ("time", "x"), (length, 4), (chunk, 2))}
        if draw(st.booleans()):
            arrays["b"] = virtual_array(url, ("x", "time"), (4, length), (4, chunk))
        times = np.arange(position, position + length)
        files.append(scanned_file(url, arrays, {"time": times, "x": np.arange(4)}))
        position += length
    return files


def shown(placement: Placement) -> object:
    """Return everything in a placement as values that can be compared."""
    (section,) = placement.sections
    return (
        placement.urls,
        placement.gaps,
        {
            path: (array.metadata, array.files.tolist(), array.chunk_offset.tolist())
            for path, array in section.virtual.items()
        },
        {path: (array.metadata, array.values.tolist()) for path, array in section.copied.items()},
    )


@given(st.data(), archives_of_files(), st.sampled_from(AXES))
def test_the_order_of_files_does_not_matter(data, files, axis):
    declared = archive(axis)
    shuffled = data.draw(st.permutations(files))
    assert shown(planned(shuffled, declared)) == shown(planned(files, declared))


@given(archives_of_files(), st.sampled_from(AXES))
def test_every_chunk_lands_exactly_once_inside_its_array(files, axis):
    placement = planned(files, archive(axis))
    assert not placement.problems
    tables = reference_tables(placement, files)
    for path, table in tables.items():
        metadata = placement.sections[0].virtual[path].metadata
        chunks = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        grid = [-(-n // chunk) for n, chunk in zip(metadata["shape"], chunks, strict=True)]
        sources = [file.arrays[path].references for file in files if path in file.arrays]
        assert len(table) == sum(map(len, sources))
        assert len(np.unique(table.index, axis=0)) == len(table)
        assert (table.index < np.array(grid)).all()
        landed = set(zip(table.location_column().to_pylist(), table.byte_offset, strict=True))
        given_chunks = {
            (location, offset)
            for source in sources
            for location, offset in zip(
                source.location_column().to_pylist(), source.byte_offset, strict=True
            )
        }
        assert landed == given_chunks


@given(archives_of_files())
def test_chunks_land_at_the_values_of_their_coordinate(files):
    placement = planned(files, archive(Axis(dimension="time", step="1")))
    (section,) = placement.sections
    array = section.virtual["/a"]
    chunk = array.metadata["chunk_grid"]["configuration"]["chunk_shape"][0]
    values = section.copied["/time"].values
    for row, offset in zip(array.files, array.chunk_offset, strict=True):
        first = int(placement.urls[row].rpartition("/")[2].removesuffix(".nc"))
        assert values[offset[0] * chunk] == first
    assert values.tolist() == list(range(int(values[0]), int(values[-1]) + 1))


@given(archives_of_files())
def test_gaps_are_all_positions_without_a_file(files):
    placement = planned(files, archive(Axis(dimension="time", step="1")))
    covered = sum(len(file.values["/time"]) for file in files)
    missing = sum(gap.length or 0 for gap in placement.gaps)
    assert placement.sections[0].axes[0].size == covered + missing
