"""The table on the screen, and the same as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from math import nan
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.libraries import ICECHUNK, ICESTREAM
from benchmarks.rows import Row
from benchmarks.runner import Runner

_PACKAGES = ("icestream", "icechunk", "zarr", "numpy", "pyarrow", "zstandard", "obstore")
_UNITS = {
    "cpu_s": "CPU s (wall s)",
    "wall_s": "wall s (CPU s)",
    "wall_ms": "ms",
    "peak_mb": "MB added",
    "file_mb": "MB manifest + log",
    "pickled_mb": "MB pickled",
    "chunks_per_s": "chunks/s",
    "requests": "requests",
    "puts": "objects written",
    "manifests": "manifests written",
    "read_kb": "kB read",
    "round_trips": "round trips in a row",
    "later_ms": "ms to read, 0.2 s after opening",
    "storage_requests": "requests to storage",
    "mb_per_s": "MB/s",
    "with_start_s": "wall s with imports and start of Spark",
    "references_per_s": "references/s, packed, written, committed",
    "scanned_per_s": "references/s, scanned",
    "bytes_per_reference": "bytes per reference",
    "driver_mb": "MB in the driver",
    "java_mb": "MB in the JVM",
    "worker_mb": "MB in the largest worker",
    "list_s": "wall s of listing",
    "first_run_s": "wall s of the first run",
}
_BESIDE = {"cpu_s": "wall_s", "wall_s": "cpu_s"}
"""The measure that is printed in brackets behind another."""
_MORE_IS_BETTER = {"chunks_per_s", "mb_per_s", "references_per_s", "scanned_per_s"}


def summarise(runner: Runner, row: Row) -> dict[str, Any]:
    """Return what a row says."""
    peer, ours = _values(runner, row, row.measure)
    better, worse = (ours, peer) if row.measure in _MORE_IS_BETTER else (peer, ours)
    return {
        "operation": row.title.strip(),
        "case": row.case.to_json(),
        "measure": row.measure,
        "icechunk": peer if row.has_peer else None,
        "icestream": ours,
        "times_better": better / worse if worse and row.has_peer else None,
        "to_reach": str(row.target) if row.target else None,
        "ok": row.target.is_met(ours, peer) if row.target else None,
        "icechunk_scaled_from": row.peer_references,
    }


def print_table(runner: Runner, rows: Sequence[Row], console: Console) -> None:
    """Print one line per row."""
    table = Table(title="icestream beside icechunk (medians)")
    table.add_column("operation", no_wrap=True)
    table.add_column("measure", no_wrap=True)
    for heading in ("icechunk", "icestream", "times better", "to reach"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("ok")
    title = ""
    for row in rows:
        found = summarise(runner, row)
        scaled = "*" if row.peer_references else ""
        beside = _values(runner, row, _BESIDE[row.measure]) if row.measure in _BESIDE else None
        ratio = found["times_better"]
        table.add_row(
            "" if row.title == title else escape(row.title),
            _UNITS[row.measure],
            _cell(found["icechunk"], beside and beside[0]) + scaled if row.has_peer else "-",
            _cell(found["icestream"], beside and beside[1]),
            f"{ratio:.1f}" if ratio else "-",
            found["to_reach"] or "-",
            {True: "yes", False: "NO", None: ""}[found["ok"]],
        )
        title = row.title
    console.print(table)
    if any(row.peer_references for row in rows):
        console.print("* measured on a tenth of the keys and multiplied by ten")


def save_json(runner: Runner, rows: Sequence[Row], folder: Path, *, started: datetime) -> Path:
    """Write the results with what is needed to judge them, and return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{started:%Y-%m-%dT%H%M%SZ}.json"
    document = {
        "started": started.isoformat(),
        "finished": datetime.now(UTC).isoformat(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in _PACKAGES},
        "machine": describe_machine(),
        "rows": [summarise(runner, row) for row in rows],
        "samples": [
            {"library": library, "case": case.to_json(), "runs": runs}
            for (library, case), runs in runner.samples.items()
        ],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def describe_machine() -> dict[str, Any]:
    """Return the facts that numbers depend on."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average": os.getloadavg(),
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if not facts.exists():
        return platform.processor()
    lines = facts.read_text().splitlines()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "")


def _values(runner: Runner, row: Row, measure: str) -> tuple[float, float]:
    """Return what icechunk and icestream need; no number where icechunk cannot do it."""
    ours = runner.value((ICESTREAM, row.case), measure)
    if not row.has_peer:
        return nan, ours
    return runner.value((ICECHUNK, row.peer_case), measure) * row.peer_scale, ours


def _cell(value: float, beside: float | None) -> str:
    return _number(value) if not beside else f"{_number(value)} ({_number(beside)})"


def _number(value: float) -> str:
    """Return a number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
