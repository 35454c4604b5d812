"""Running cases, each in a fresh process, one after the other."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.cases import Case, Inputs, chunks_folder, repository_folder, virtual_folder
from benchmarks.libraries import ICECHUNK, ICESTREAM
from benchmarks.rows import Row
from benchmarks.runs import Metrics
from benchmarks.slow_server import SlowServer

_ROOT = Path(__file__).parents[1]

_NEEDS_OWN_REFERENCES = {
    "change_one_chunk",
    "list_keys",
    "open_and_read_coordinate",
    "read_coordinate_beside",
}
_NEEDS_REFERENCES_OF = {
    "decode_manifest": ICECHUNK,
    "list_compressed_locations": ICECHUNK,
    "list_locations": ICESTREAM,
    "list_objects": ICESTREAM,
    "list_object_columns": ICESTREAM,
}
"""Operations in which both libraries read what one of them wrote."""
_NEEDS_CHUNKS = {"read_native_chunks"}
_NEEDS_VIRTUAL_CHUNKS = {
    "read_chunks_of_file": "prepare_chunks_of_file",
    "read_chunks_on_server": "prepare_chunks_on_server",
}

Job = tuple[str, Case]
"""A library and what it does."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs jobs and keeps what they cost."""

    work: Path
    tell: Callable[[str], None]
    server: SlowServer | None = None
    samples: dict[Job, list[Metrics]] = field(default_factory=dict)

    def run(self, rows: Sequence[Row], repeat: int) -> None:
        """Run what the rows need, the two libraries in turns."""
        pairs = dict.fromkeys(
            (
                (row.case, row.max_repeat or repeat),
                (row.peer_case, (row.peer_repeat or repeat) if row.has_peer else 0),
            )
            for row in rows
        )
        for (ours, own_repeat), (peer, peer_repeat) in pairs:
            for turn in range(1, min(repeat, own_repeat) + 1):
                if turn <= peer_repeat:
                    self._sample((ICECHUNK, peer), turn)
                self._sample((ICESTREAM, ours), turn)

    def value(self, job: Job, measure: str) -> float:
        """Return the median of a measure."""
        samples = self.samples[job]
        if measure == "wall_ms":
            return 1_000 * self.value(job, "wall_s")
        return statistics.median(sample[measure] for sample in samples)

    def _sample(self, job: Job, turn: int) -> None:
        if len(self.samples.get(job, ())) >= turn:
            return  # both forms of our input are compared with the one that icechunk has
        library, case = job
        self._prepare(library, case)
        self.tell(f"{library}: {case.label}, run {turn}")
        before = self._requests()
        metrics = self._run_child(library, case)
        metrics["requests"] = self._requests() - before
        self.samples.setdefault(job, []).append(metrics)

    def _requests(self) -> int:
        return 0 if self.server is None else self.server.requests

    def _prepare(self, library: str, case: Case) -> None:
        """Write the repository that a case reads, unless an earlier case left it."""
        operation = case.operation
        if operation in _NEEDS_CHUNKS:
            self._ensure(library, case, "prepare_chunks", chunks_folder(self.work, library, case))
        elif operation in _NEEDS_VIRTUAL_CHUNKS:
            folder = virtual_folder(self.work, library, case)
            self._ensure(library, case, _NEEDS_VIRTUAL_CHUNKS[operation], folder)
        elif operation in _NEEDS_OWN_REFERENCES or operation in _NEEDS_REFERENCES_OF:
            writer = _NEEDS_REFERENCES_OF.get(operation, library)
            folder = repository_folder(self.work, writer, case)
            self._ensure(writer, case, "prepare_references", folder)

    def _ensure(self, library: str, case: Case, operation: str, folder: Path) -> None:
        if folder.exists():
            return
        self.tell(f"{library}: preparing {folder.name}")
        inputs = Inputs.TEXTS if library == ICECHUNK else Inputs.ARROW
        self._run_child(library, replace(case, operation=operation, inputs=inputs))

    def _run_child(self, library: str, case: Case) -> Metrics:
        request = {
            "library": library,
            "case": case.to_json(),
            "work": str(self.work),
            "server": None if self.server is None else self.server.address.to_json(),
        }
        done = subprocess.run(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", "benchmarks.child", json.dumps(request)],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{library} failed at {case.label}:\n{done.stderr}")
        metrics: Metrics = json.loads(done.stdout.splitlines()[-1])
        return metrics
