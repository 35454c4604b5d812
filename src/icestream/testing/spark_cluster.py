"""A real Spark cluster on loopback: a master and workers, from the installed pyspark."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from icestream.errors import NotFoundError, StorageError
from icestream.spark.java import find_java

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 90
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster; its processes may be killed, to see what becomes of a job."""

    master: str
    """What `icestream.spark.session` takes."""
    web_port: int
    master_pid: int
    worker_pids: tuple[int, ...]

    def alive_workers(self) -> int:
        """Return how many workers the master knows as alive."""
        connection = http.client.HTTPConnection(_HOST, self.web_port, timeout=10)
        try:
            connection.request("GET", "/json/")
            state = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return 0
        finally:
            connection.close()
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])

    def executor_pids(self) -> list[int]:
        """Return the processes that run tasks: the children of the workers."""
        command = ["ps", "-A", "-o", "pid=,ppid="]
        listing = subprocess.run(  # noqa: S603  constant arguments
            command, capture_output=True, text=True, check=True
        )
        rows = (line.split() for line in listing.stdout.splitlines())
        return [int(pid) for pid, parent in rows if int(parent) in self.worker_pids]


@contextmanager
def spark_cluster(
    folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g"
) -> Iterator[SparkCluster]:
    """Run a standalone cluster, with its files in `folder`.

    Args:
        folder: For logs, and for what executors keep.
        workers: How many there are; each is a machine to Spark.
        cores: Of each worker.
        memory: Of each worker, which its executors share.
    """
    port, web_port = _free_ports(2)
    master = f"spark://{_HOST}:{port}"
    own = ["--host", _HOST, "--port", str(port), "--webui-port", str(web_port)]
    offered = ["--host", _HOST, "-c", str(cores), "-m", memory, "--webui-port", "0"]
    with ExitStack() as stack:
        first = stack.enter_context(_running("master.Master", own, folder / "master"))
        others = tuple(
            stack.enter_context(
                _running("worker.Worker", [*offered, master], folder / f"worker-{number}")
            )
            for number in range(workers)
        )
        cluster = SparkCluster(master, web_port, first.pid, tuple(one.pid for one in others))
        _wait_until_up(cluster, [first, *others], folder)
        yield cluster


@contextmanager
def _running(name: str, options: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True)
    spark = _spark_home()
    program = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  a program of an installed package
            [*program, *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(spark, folder),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _spark_home() -> Path:
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise NotFoundError("pyspark is not installed: pip install 'icestream[spark]'")
    return Path(package.origin).parent


def _environment(spark: Path, folder: Path) -> Mapping[str, str]:
    java = find_java().home
    return {
        **os.environ,
        **({} if java is None else {"JAVA_HOME": str(java)}),
        "JDK_JAVA_OPTIONS": _QUICK_JAVA,
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }


def _wait_until_up(
    cluster: SparkCluster, processes: Sequence[subprocess.Popen[bytes]], folder: Path
) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while cluster.alive_workers() < len(cluster.worker_pids):
        if time.monotonic() > deadline or any(one.poll() is not None for one in processes):
            logs = "\n".join(
                log.read_text(errors="replace")[-2000:] for log in folder.glob("*/log")
            )
            raise StorageError(f"the Spark cluster did not start: {logs}")
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]
