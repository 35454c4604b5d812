"""The logical hash of slices, beside the bare SHA3-256 that it cannot be faster than.

    python -m benchmarks.logical_hash [rows]

Speeds are megabytes of Arrow data per second of one core. Texts have eight bytes of length each
in the hash that Arrow has not, so short ones are below the floor by that much.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measuring import MEGABYTE, measured
from icestream.ledger.data.logical_hash import logical_hash

NUMERIC_TARGET = 200.0
TEXT_TARGET = 50.0


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one kind of column is hashed."""

    title: str
    megabytes_per_s: float
    target: float | None

    def __str__(self) -> str:
        verdict = ""
        if self.target is not None:
            sign = "met" if self.megabytes_per_s >= self.target else "MISSED"
            verdict = f">= {self.target:g} {sign}"
        return f"{self.title:34}{self.megabytes_per_s:10.1f} MB/s   {verdict}"


def main(rows: int) -> None:
    """Print one line per kind of column."""
    for speed in speeds(rows):
        print(speed)


def speeds(rows: int) -> Iterator[Speed]:
    """Yield the speed of each kind of column, the floor first."""
    data = np.random.default_rng(0).bytes(rows * 8)
    yield Speed("sha3-256 of as many bytes", _speed(len(data), lambda: _bare(data)), None)
    for title, (array, target) in _columns(rows).items():
        table = pa.table({"a": array})
        yield Speed(title, _speed(table.nbytes, partial(logical_hash, table)), target)


def _bare(data: bytes) -> bytes:
    return hashlib.sha3_256(data).digest()


def _speed(size: int, step: Callable[[], Any]) -> float:
    step()
    with measured() as cost:
        step()
    return size / MEGABYTE / cost.cpu_s


def _columns(rows: int) -> dict[str, tuple[pa.Array, float | None]]:
    rng = np.random.default_rng(1)
    numbers, holes = rng.integers(0, 1 << 40, rows), rng.random(rows) < 0.1
    short = pa.array([f"station-{number % 1000}" for number in range(rows // 4)])
    long = pa.array([f"s3://bucket/archive/2024/file-{number:012d}" for number in range(rows // 4)])
    lists = pa.ListArray.from_arrays(np.arange(0, rows + 1, 4, dtype=np.int32), numbers)
    return {
        "int64": (pa.array(numbers), NUMERIC_TARGET),
        "float32": (pa.array(numbers.astype(np.float32)), NUMERIC_TARGET),
        "timestamp": (pa.array(numbers, pa.timestamp("ms", "UTC")), NUMERIC_TARGET),
        "int64, a tenth null": (pa.array(numbers, mask=holes), None),
        "strings of 11 bytes": (short, TEXT_TARGET),
        "strings of 42 bytes": (long, TEXT_TARGET),
        "lists of four int64": (lists, None),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000)
