"""A real S3 server behind a proxy that delays and counts requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.server_address import ServerAddress
from icestream.testing.fault_proxy import Action, Fault, FaultProxy
from icestream.testing.servers import S3Server, seaweedfs

LATENCY_S = 0.02


@dataclass(frozen=True, slots=True)
class SlowServer:
    """A running server, as the process that measures sees it."""

    address: ServerAddress
    proxy: FaultProxy

    @property
    def requests(self) -> int:
        """How many requests came so far, to where they are delayed."""
        return len(self.proxy.requests)


@contextmanager
def slow_server(folder: Path) -> Iterator[SlowServer]:
    """Run SeaweedFS behind a proxy, which lives in a thread of this process."""
    folder.mkdir()
    with seaweedfs(folder) as server, slowed(server) as slow:
        yield slow


@contextmanager
def slowed(server: S3Server) -> Iterator[SlowServer]:
    """Put the proxy before a server that runs already."""
    delay = Action(Fault.DELAY, seconds=LATENCY_S)
    with FaultProxy(server.port, lambda _: delay) as proxy:
        address = ServerAddress(
            endpoint_url=f"http://127.0.0.1:{proxy.port}",
            direct_url=server.endpoint_url,
            bucket=server.new_bucket(),
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
        )
        yield SlowServer(address, proxy)
