"""Runs of archives on a real cluster: executors die, secrets stay secret, memory stays small."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks import archives
from benchmarks.archives import CHUNK_BYTES, write_hollow_files
from tests import waiting_parsers
from tests.archive_builders import daily_archive, write_day
from tests.integration.spark.conftest import QUICK_JAVA
from tests.run_results import file_rows, places_in
from tests.waiting_parsers import KILLED, WAITS

from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    ParserChoice,
    PlaceBy,
    Target,
)
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.opened_archives import Places, open_archive
from icestream.ingest.runs import run_archive
from icestream.model.chunk_refs import VirtualRef
from icestream.storage import s3_storage
from icestream.testing.servers import S3Server
from icestream.testing.spark_cluster import SparkCluster, spark_cluster

PROJECT = Path(archives.__file__).parents[1]
SHIPPED = f"{archives.__file__},{waiting_parsers.__file__}"
SMALL_EXECUTORS = {"spark.executor.memory": "512m", "spark.submit.pyFiles": SHIPPED}
PROGRAM = str(Path(sys.executable).parent / "icestream")
HOLLOW = "benchmarks.archives:parse_hollow_file"
PATIENCE_S = 200


@pytest.fixture(scope="module")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(cluster_folder: Path) -> Iterator[SparkCluster]:
    with pytest.MonkeyPatch.context() as patch:
        # nothing of this project reaches executors but what is installed or shipped
        patch.chdir(cluster_folder)
        with spark_cluster(cluster_folder) as started:
            yield started


def hollow_archive(folder: Path, **changes: Any) -> Archive:
    given: dict[str, Any] = {
        "name": "hollow",
        "sources": (f"{folder}/files/**/*.bin",),
        "parser": ParserChoice(name="archives:parse_hollow_file"),
        "combine": Combination(along=(Axis(dimension="time", by=PlaceBy.ORDER),)),
    }
    return Archive(**{**given, **changes})


def references_of(archive: Archive, places: Places | None = None) -> pa.Table:
    """Return all references of the only array, row by row."""
    repository = open_archive(archive, places).repository
    table = repository.readonly_session("main").reference_table("/data")
    numbers = {f"index-{axis}": column for axis, column in enumerate(table.index.T)}
    return pa.table(
        {
            **numbers,
            "location": table.location_column(),
            "byte_offset": table.byte_offset,
            "length": table.length,
            "etag": table.etag_column(),
        }
    )


def driver(name: str, settings: dict[str, Any], **environment: str) -> tuple[Any, str]:
    """Run a program of `tests.cluster_drivers`; return its answer, and its errors as text."""
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-m", "tests.cluster_drivers", name, json.dumps(settings)],
        cwd=PROJECT,
        env=os.environ | {"JDK_JAVA_OPTIONS": QUICK_JAVA} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


# -- executors die --------------------------------------------------------------------------------


def parents(pid: int) -> Iterator[int]:
    """Yield a process and those that it came from."""
    while pid > 1:
        yield pid
        command = ["ps", "-o", "ppid=", "-p", str(pid)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        pid = int(found.stdout or 0)


def wait_for(what: Any, process: subprocess.Popen[str]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def started_command(archive: Archive, folder: Path, master: str) -> subprocess.Popen[str]:
    """Start the command that runs an archive, with settings of Spark as its guide tells."""
    (folder / "hollow.yaml").write_bytes(encode_archive(archive))
    settings = "".join(f"{name} {text}\n" for name, text in SMALL_EXECUTORS.items())
    (folder / "spark-defaults.conf").write_text(settings)
    return subprocess.Popen(  # noqa: S603  our own program
        [PROGRAM, "archive", "run", "hollow.yaml", "--master", master, "--output", "json"],
        cwd=folder,
        env=os.environ | {"JDK_JAVA_OPTIONS": QUICK_JAVA, "SPARK_CONF_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_in_scan(marks: Path, cluster: SparkCluster, running: subprocess.Popen[str]) -> None:
    """Kill the executor whose parser waits."""
    mark = marks / WAITS
    wait_for(lambda: mark.exists() and mark.read_text(), running)
    executors = cluster.executor_pids()
    (scanning,) = [pid for pid in parents(int(mark.read_text())) if pid in executors]
    os.kill(scanning, signal.SIGKILL)
    (marks / KILLED).touch()


def kill_in_write(repository: Path, cluster: SparkCluster, running: subprocess.Popen[str]) -> None:
    """Kill an executor when the first of many manifests is there, and no commit."""
    wait_for(lambda: any((repository / "manifests").glob("*")), running)
    os.kill(cluster.executor_pids()[0], signal.SIGKILL)
    assert len([*(repository / "snapshots").iterdir()]) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_executors_killed_in_a_scan_and_in_a_write_leave_the_same(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    write_hollow_files(tmp_path / "files", 48, 4_000)
    marks = tmp_path / "marks"
    marks.mkdir()
    options = {"folder": str(marks), "last_of_name": "0000030-4000.bin"}
    waiting = ParserChoice(name="waiting_parsers:WaitingParser", options=options)
    target = Target(repository=str(tmp_path / "repository"), splits={"time": 4})
    archive = hollow_archive(tmp_path, target=target, parser=waiting)

    running = started_command(archive, tmp_path, cluster.master)
    kill_in_scan(marks, cluster, running)
    kill_in_write(tmp_path / "repository", cluster, running)
    told, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, errors
    assert json.loads(told)["num_references"] == 48 * 4_000

    undisturbed = hollow_archive(tmp_path, target=target, parser=ParserChoice(name=HOLLOW))
    places = places_in(tmp_path / "undisturbed")
    run_archive(undisturbed, places=places)
    assert references_of(archive).equals(references_of(undisturbed, places))
    rows = file_rows(open_archive(archive))
    assert rows == file_rows(open_archive(undisturbed, places))
    assert len(rows[0]) == 48


# -- secrets stay secret --------------------------------------------------------------------------

SECRETS = ("kept-by-the-caller", "kept-by-the-storage", "kept-by-the-environment")


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_credentials_reach_executors_and_are_shown_nowhere(
    cluster: SparkCluster, cluster_folder: Path, moto: S3Server, tmp_path: Path
) -> None:
    bucket = moto.new_bucket()
    arguments = {**moto.storage_arguments(), "bucket": bucket}
    writer = s3_storage(**arguments, prefix="sst")
    for number in range(6):
        path = write_day(tmp_path / "files", number)
        writer.put(path.name, path.read_bytes())
    reached = SourcePlace(
        prefix=f"s3://{bucket}/",
        platform="s3_compatible",
        endpoint_url=moto.endpoint_url,
        allow_http=True,
        region="us-east-1",
        force_path_style=True,
    )
    archive = daily_archive(
        tmp_path, "unused", sources=(f"s3://{bucket}/sst/*.nc",), access=(reached,)
    )
    archive = replace(archive, ledger=str(tmp_path / "ledger"))
    pages, events = tmp_path / "pages", tmp_path / "events"
    pages.mkdir()
    events.mkdir()
    (tmp_path / "sst.yaml").write_bytes(encode_archive(archive))
    of_sources, of_storage, of_environment = SECRETS
    answer, errors = driver(
        "secrets",
        {
            "declaration": str(tmp_path / "sst.yaml"),
            "master": cluster.master,
            "spark": SMALL_EXECUTORS
            | {
                "spark.ui.enabled": "true",
                "spark.ui.port": "0",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": events.as_uri(),
                "spark.eventLog.compress": "false",
            },
            "prefix": f"s3://{bucket}/",
            "secret_of_sources": of_sources,
            "repository": arguments | {"prefix": "repository", "secret_access_key": of_storage},
            "pages": str(pages),
        },
        AWS_ACCESS_KEY_ID="somebody",
        AWS_SECRET_ACCESS_KEY=of_environment,
    )
    assert answer == {"references": 6 * 4, "set_aside": 0}
    logs = [path for path in cluster_folder.rglob("*") if path.name in ("log", "stderr", "stdout")]
    shown = {
        path: path.read_bytes()
        for path in (*logs, *pages.iterdir(), *events.rglob("*"))
        if path.is_file()
    }
    everything = b"".join(shown.values()) + errors.encode()
    # what must be there: descriptions in the web interface, events, and logs of executors
    assert everything.count(b"icestream: scan 6 files") > 2
    assert any(path.name == "stderr" and text for path, text in shown.items())
    assert any(b"SparkListenerJobStart" in text for text in shown.values())
    for secret in SECRETS:
        assert not [path for path, text in shown.items() if secret.encode() in text]
        assert secret not in errors


# -- memory stays small ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("num_files", [100, 2_000])
def test_the_driver_holds_no_references(
    cluster: SparkCluster, tmp_path: Path, num_files: int
) -> None:
    per_file = 10_000
    write_hollow_files(tmp_path / "files", num_files, per_file)
    target = Target(repository=str(tmp_path / "repository"), splits={"time": 1_000})
    archive = hollow_archive(tmp_path, target=target)
    (tmp_path / "hollow.yaml").write_bytes(encode_archive(archive))
    answer, _ = driver(
        "memory",
        {
            "declaration": str(tmp_path / "hollow.yaml"),
            "master": cluster.master,
            "spark": SMALL_EXECUTORS | {"spark.driver.memory": "1g"},
        },
    )
    assert answer["references"] == num_files * per_file
    assert answer["peak_mb"] < 1_000, answer
    session = open_archive(archive).repository.readonly_session("main")
    files = session._copy.snapshot.manifest_files
    assert sum(file.num_refs for file in files.values()) == num_files * per_file
    for row in np.random.default_rng(0).integers(0, num_files * 10, 20).tolist():
        number, step = divmod(row, 10)
        found = session._copy.find_chunk("/data", (row, 7, 0))
        assert found is not None
        assert isinstance(found.ref, VirtualRef)
        assert found.ref.location.endswith(f"hollow-{number:07}-{per_file}.bin")
        assert found.ref.byte_offset == (step * 1_000 + 7) * CHUNK_BYTES
