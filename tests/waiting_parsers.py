"""A parser that waits at one file until somebody is killed; tests send this module to executors.

It stands alone there, beside `benchmarks/archives.py`, which is sent as well.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAITS = "waits"
"""In the folder: the id of the process that waits."""
KILLED = "killed"
"""In the folder: it need not wait any longer."""
_PATIENCE_S = 120


@dataclass(frozen=True)
class WaitingParser:
    """Parses hollow files; the first that comes to a certain file waits there."""

    folder: str
    last_of_name: str
    """How the file's URL ends."""

    def __call__(self, url: str, registry: Any) -> Any:
        """Return the references of a file."""
        import archives  # type: ignore[import-not-found]

        if url.endswith(self.last_of_name):
            self._wait()
        return archives.parse_hollow_file(url, registry)

    def _wait(self) -> None:
        mark = Path(self.folder) / WAITS
        deadline = time.monotonic() + _PATIENCE_S
        try:
            with mark.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        while not (Path(self.folder) / KILLED).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
