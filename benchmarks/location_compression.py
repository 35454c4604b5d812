"""What compressing the locations of a manifest costs, and what it saves.

    python -m benchmarks.location_compression [references] [--repeat N]

Prints a Markdown table per kind of locations: files written by both libraries with and without a
dictionary, each read by both. Every measurement is a process of its own; the lowest of the repeats
counts for times, the median for memory.
"""

import argparse
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.cases import Inputs, Shape
from benchmarks.columns import CHECKSUM, build_columns, grid_of
from benchmarks.libraries import ICECHUNK, ICESTREAM
from benchmarks.measuring import MEGABYTE, folder_bytes, measured, resident_bytes

_ROOT = Path(__file__).parents[1]
_LEVELS = (1, 3, 9)
_LOOKUPS = 2_000
_BUCKET = "s3://climate-archive-eu-central-1"


class Kind(StrEnum):
    """How locations look."""

    FILE = "file"
    """Ten thousand chunks in each file."""
    OBJECT = "object"
    """One object per chunk, named by its coordinates, below a long common prefix."""
    UUID = "uuid"
    """One object per chunk, named by a random number."""
    DATED = "dated"
    """One object per chunk, its name dates and times: little of it is common to all."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """How one measured manifest is written."""

    kind: Kind
    writer: str
    has_dictionary: bool
    level: int

    @property
    def label(self) -> str:
        """A name for its folder and for messages."""
        return f"{self.kind}-{self.writer}-{self.has_dictionary}-{self.level}"


Metrics = dict[str, float]


# -- what child processes do ----------------------------------------------------------------------


def write(manifest: Manifest, folder: Path, references: int) -> Metrics:
    """Commit the references, and measure the commit and its manifest."""
    import zarr  # not in the processes that read, whose memory is measured

    library: Any = importlib.import_module(manifest.writer)
    storage = library.local_filesystem_storage(str(folder))
    repo = library.Repository.create(storage, config=_config(library, manifest))
    session = repo.writable_session("main")
    grid = grid_of(references)
    zarr.create_array(session.store, name="data", shape=grid, chunks=(1, 1, 1), dtype="f4")
    columns = build_columns(references, _shape(manifest.kind), Inputs.TEXTS)
    locations = list(_locations(manifest.kind, columns.locations))
    session.store.set_virtual_refs_arr(
        "data",
        grid,
        locations,
        columns.offsets,
        columns.lengths,
        validate_containers=False,
        checksum=CHECKSUM,
    )
    with measured() as cost:
        session.commit("references")
    return {"commit_s": cost.cpu_s, "file_mb": folder_bytes(folder / "manifests") / MEGABYTE}


def encode(manifest: Manifest, folder: Path, references: int) -> Metrics:
    """Encode the manifest of a folder once more, and measure that alone."""
    from icestream.codec.manifests import decode_manifest, encode_manifest
    from icestream.model.manifests import LocationCompression

    (path,) = (folder / "manifests").iterdir()
    found = decode_manifest(path.read_bytes(), name=path.name)
    assert found.num_refs == references
    locations = LocationCompression() if manifest.has_dictionary else None
    with measured() as cost:
        encode_manifest(found.id, found.arrays, spec=2, level=manifest.level, locations=locations)
    return {"encode_s": cost.cpu_s, "encode_peak_mb": cost.peak_mb}


def read(reader: str, folder: Path, references: int) -> Metrics:
    """Look chunks up in a fresh session, and measure the first lookup and the following ones."""
    library: Any = importlib.import_module(reader)
    repo = library.Repository.open(library.local_filesystem_storage(str(folder)))
    session = repo.readonly_session("main")
    indexes = [[row // 100, row // 10 % 10, row % 10] for row in _random_rows(references)]
    before = resident_bytes()
    with measured() as first:
        session.chunk_type("/data", indexes[0])
    loaded = resident_bytes() - before
    started = time.process_time()
    for index in indexes:
        session.chunk_type("/data", index)
    each = (time.process_time() - started) / len(indexes)
    return {"first_s": first.cpu_s, "loaded_mb": loaded / MEGABYTE, "lookup_us": each * 1e6}


def _config(library: Any, manifest: Manifest) -> Any:
    samples = 100 if manifest.has_dictionary else 0
    compression = library.ManifestVirtualChunkLocationCompressionConfig(
        dictionary_max_training_samples=samples
    )
    return library.RepositoryConfig(
        compression=library.CompressionConfig(level=manifest.level),
        manifest=library.ManifestConfig(virtual_chunk_location_compression=compression),
    )


def _shape(kind: Kind) -> Shape:
    return Shape.FILE if kind is Kind.FILE else Shape.OBJECT


def _locations(kind: Kind, default: Any) -> Iterator[str]:
    """Yield the location of each chunk, those of `default` if they are of this kind."""
    names: dict[Kind, Callable[[int, random.Random], str]] = {
        Kind.UUID: _random_name,
        Kind.DATED: _dated_name,
    }
    if kind not in names:
        yield from default
        return
    numbers = random.Random(0)
    for row in range(len(default)):
        yield names[kind](row, numbers)


def _random_name(_row: int, numbers: random.Random) -> str:
    """Return a location of 110 characters, 36 of which are a random number."""
    name = uuid.UUID(int=numbers.getrandbits(128), version=4)
    return f"{_BUCKET}/reanalysis/hourly/single-levels/objects/{name}"


def _dated_name(row: int, numbers: random.Random) -> str:
    """Return a location of some 120 characters, with three times in its name."""
    days, minute = divmod(row, 1440)
    year, day = divmod(days, 365)
    start = f"{2000 + year}{day + 1:03d}{minute // 60:02d}{minute % 60:02d}"
    times = "_".join(f"{letter}{start}{numbers.randrange(600):03d}" for letter in "sec")
    folder = f"{2000 + year}/{day + 1:03d}/{minute // 60:02d}"
    return f"s3://weather-satellite-17/L2-MCMIPC/{folder}/OR_L2-MCMIPC-M6_S17_{times}.nc"


def _random_rows(references: int) -> list[int]:
    return random.Random(1).choices(range(references), k=_LOOKUPS)


# -- the parent process ---------------------------------------------------------------------------


def main() -> None:
    """Measure and print, or be the child that measures one thing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.location_compression")
    parser.add_argument("references", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_run_child(json.loads(options.child))), flush=True)
        # icechunk sometimes crashes while the interpreter shuts down, after the result is there
        os._exit(0)
    for kind in Kind:
        print(f"\n{options.references} references, {kind}\n\n{_HEAD}", flush=True)
        for manifest in _manifests(kind):
            print(_row(manifest, options.references, options.repeat), flush=True)


_HEAD = (
    "| written by | dictionary | level | file MB | encode s | commit s "
    "| here: first s | loaded MB | lookup us | icechunk: first s | loaded MB | lookup us |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def _manifests(kind: Kind) -> Iterator[Manifest]:
    for writer, levels in ((ICESTREAM, _LEVELS), (ICECHUNK, (3,))):
        for has_dictionary in (False, True):
            for level in levels:
                yield Manifest(kind, writer, has_dictionary, level)


def _row(manifest: Manifest, references: int, repeat: int) -> str:
    samples = [_measure(manifest, references) for _ in range(repeat)]
    best = {
        name: (statistics.median if name.endswith("mb") else min)(s[name] for s in samples)
        for name in samples[0]
    }
    cells = [
        manifest.writer,
        "on" if manifest.has_dictionary else "off",
        str(manifest.level),
        f"{best['file_mb']:.2f}",
        f"{best['encode_s']:.2f}" if "encode_s" in best else "",
        f"{best['commit_s']:.2f}",
    ]
    for reader in (ICESTREAM, ICECHUNK):
        first, loaded, each = (
            best[f"{reader}_{name}"] for name in ("first_s", "loaded_mb", "lookup_us")
        )
        cells += [f"{first:.2f}", f"{loaded:.0f}", f"{each:.1f}"]
    return f"| {' | '.join(cells)} |"


def _measure(manifest: Manifest, references: int) -> Metrics:
    """Write one manifest and read it with both libraries, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="icestream-locations-") as folder:
        request = {"manifest": asdict(manifest), "folder": folder, "references": references}
        metrics = _spawn(request | {"step": "write"})
        if manifest.writer == ICESTREAM:
            metrics |= _spawn(request | {"step": "encode"})
        for reader in (ICESTREAM, ICECHUNK):
            found = _spawn(request | {"step": "read", "reader": reader})
            metrics |= {f"{reader}_{name}": value for name, value in found.items()}
    return metrics


def _spawn(request: dict[str, Any]) -> Metrics:
    done = subprocess.run(  # noqa: S603  our own interpreter and module
        [sys.executable, "-m", "benchmarks.location_compression", "--child", json.dumps(request)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{request} failed:\n{done.stderr}")
    metrics: Metrics = json.loads(done.stdout.splitlines()[-1])
    return metrics


def _run_child(request: dict[str, Any]) -> Metrics:
    values = request["manifest"]
    manifest = Manifest(**values | {"kind": Kind(values["kind"])})
    folder, references = Path(request["folder"]), request["references"]
    if request["step"] == "write":
        return write(manifest, folder, references)
    if request["step"] == "encode":
        return encode(manifest, folder, references)
    return read(request["reader"], folder, references)


if __name__ == "__main__":
    main()
