"""Command line of the benchmarks: `python -m benchmarks`."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.report import print_table, save_json
from benchmarks.rows import Row, full_rows, only, quick_rows
from benchmarks.runner import Runner
from benchmarks.slow_server import SlowServer, slow_server

_RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table and save it."""
    options = _parse(arguments)
    rows = quick_rows() if options.quick else full_rows(long=options.long)
    rows = only(rows, options.only)
    if not rows:
        print(f"no operation matches {options.only!r}", file=sys.stderr)
        return 2
    started = datetime.now(UTC)
    console = Console(width=None if sys.stdout.isatty() else 160)
    progress = Console(stderr=True, highlight=False)
    with (
        tempfile.TemporaryDirectory(prefix="icestream-bench-", dir=options.folder) as work,
        _server_for(rows, Path(work)) as server,
    ):
        runner = Runner(Path(work), progress.print, server)
        runner.run(rows, 1 if options.quick else options.repeat)
    print_table(runner, rows, console)
    saved = save_json(runner, rows, options.results, started=started)
    console.print(f"saved as {saved}", soft_wrap=True)
    return 0


def _server_for(rows: Sequence[Row], work: Path) -> AbstractContextManager[SlowServer | None]:
    """Start a server if any row needs one."""
    needed = any("server" in row.case.operation for row in rows)
    return slow_server(work / "server") if needed else nullcontext()


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, the median counts")
    parser.add_argument(
        "--quick", action="store_true", help="100,000 references, once: a smoke test"
    )
    parser.add_argument(
        "--long", action="store_true", help="also 10 million (minutes, 10 GB memory)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="operations whose name has TEXT")
    parser.add_argument("--folder", default=None, help="where repositories are made: a local disk")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="where the JSON is written")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
