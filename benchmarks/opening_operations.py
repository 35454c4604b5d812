"""The measured way from opening a repository on a remote store to a first value of a coordinate."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import zarr

from benchmarks.columns import build_columns, grid_of
from benchmarks.measuring import measured
from benchmarks.runs import BRANCH, DATA, Metrics, Run, open_array
from benchmarks.server_address import ServerAddress
from icestream.testing.fault_proxy import Action, Fault, FaultProxy, Request

LATENCY_S = 0.03
PAUSE_S = 0.2
"""How long a person or program takes from opening a session to reading."""

_COORDINATE = "time"
_COORDINATE_LENGTH = 1_000


def open_to_coordinate_on_server(run: Run) -> Metrics:
    """Open, read a native coordinate; nothing is loaded ahead."""
    return _open_and_read(run, preloads=False)


def open_to_coordinate_on_server_with_preload(run: Run) -> Metrics:
    """Open, read a native coordinate, whose manifest is loaded ahead."""
    return _open_and_read(run, preloads=True)


def _open_and_read(run: Run, *, preloads: bool) -> Metrics:
    if run.server is None:
        raise ValueError(f"{run.case.operation} needs a server")
    _ensure_repository(run, run.server)
    config = _config(run, preloads=preloads)
    with _far_away(run.server) as far:
        _read_first(_open(run, run.server, far.url, config))  # imports, connections
        far.arrivals.clear()
        with measured() as cost:
            _read_first(_open(run, run.server, far.url, config))
        round_trips = far.round_trips
        session = _open(run, run.server, far.url, config).readonly_session(BRANCH)
        time.sleep(PAUSE_S)
        start = time.perf_counter()
        assert float(np.asarray(open_array(session, _COORDINATE)[3])) == 3
        later_s = time.perf_counter() - start
    return asdict(cost) | {"round_trips": round_trips, "later_ms": 1_000 * later_s}


def _read_first(repo: Any) -> None:
    session = repo.readonly_session(BRANCH)
    assert float(np.asarray(open_array(session, _COORDINATE)[3])) == 3


def _config(run: Run, *, preloads: bool) -> Any:
    module = run.library.module
    condition = module.ManifestPreloadCondition
    wanted = condition.name_matches(f"^{_COORDINATE}$") if preloads else condition.false()
    preload = module.ManifestPreloadConfig(max_total_refs=10_000, preload_if=wanted)
    return module.RepositoryConfig(manifest=module.ManifestConfig(preload=preload))


# -- the store ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FarAway:
    """Notes when requests arrive at a server that takes its time to answer."""

    url: str
    arrivals: list[float] = field(default_factory=list)

    @property
    def round_trips(self) -> int:
        """How many requests waited for the answer to another, one after the other."""
        steps, answered = 0, 0.0
        for arrival in sorted(self.arrivals):
            if arrival >= answered:
                steps, answered = steps + 1, arrival + LATENCY_S
        return steps


@contextmanager
def _far_away(server: ServerAddress) -> Iterator[_FarAway]:
    """Put a proxy with our own delay before the server."""
    delay = Action(Fault.DELAY, seconds=LATENCY_S)
    arrivals: list[float] = []

    def note(_request: Request) -> Action:
        arrivals.append(time.perf_counter())
        return delay

    port = urlsplit(server.direct_url).port
    assert port is not None
    with FaultProxy(port, note) as proxy:
        yield _FarAway(f"http://127.0.0.1:{proxy.port}", arrivals)


def _storage(run: Run, server: ServerAddress, url: str) -> Any:
    return run.library.module.s3_storage(
        bucket=server.bucket,
        prefix=f"{run.library.name}-coordinate-{run.case.references}",
        endpoint_url=url,
        allow_http=True,
        region="us-east-1",
        force_path_style=True,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )


def _open(run: Run, server: ServerAddress, url: str, config: Any) -> Any:
    return run.library.repository.open(_storage(run, server, url), config=config)


def _ensure_repository(run: Run, server: ServerAddress) -> None:
    """Write the repository that both operations read, unless one of them has done so."""
    storage = _storage(run, server, server.direct_url)
    if run.library.repository.exists(storage):
        return
    session = run.library.repository.create(storage).writable_session(BRANCH)
    columns = build_columns(run.case.references, run.case.shape, run.case.inputs)
    group = zarr.create_group(session.store)
    group.create_array(DATA, shape=grid_of(run.case.references), chunks=(1, 1, 1), dtype="f4")
    session.store.set_virtual_refs_arr(
        DATA,
        columns.grid_shape,
        columns.locations,
        columns.offsets,
        columns.lengths,
        validate_containers=False,
    )
    coordinate = group.create_array(
        _COORDINATE, shape=(_COORDINATE_LENGTH,), dtype="f8", compressors=None
    )
    coordinate[:] = np.arange(_COORDINATE_LENGTH)
    session.commit("a coordinate beside many references")


OPERATIONS: tuple[Callable[[Run], Metrics], ...] = (
    open_to_coordinate_on_server,
    open_to_coordinate_on_server_with_preload,
)
