"""Programs that run archives on a cluster: `python -m tests.cluster_drivers NAME SETTINGS`.

Each is a process of its own, because one process has one Spark. SETTINGS are a JSON document; what
comes out is one as well, on standard output.
"""

import json
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from urllib.request import urlopen

from icestream.credentials import s3_static_credentials
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.opened_archives import Places
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.spark import session
from icestream.spark.ingest_engine import SparkEngine
from icestream.storage import s3_storage

_PAGES = ("environment/", "jobs/", "stages/", "storage/", "executors/", "SQL/")
_DETAILS = {
    "jobs/job/?id={}": 30,
    "stages/stage/?id={}&attempt=0": 40,
    "SQL/execution/?id={}": 20,
}
_RESOURCES = ("environment", "jobs", "stages?details=true", "storage/rdd", "sql?details=true")


def measure_memory(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Run an archive, and say how much memory this process had at most."""
    report = _run(settings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "references": report.num_references,
        "peak_mb": peak * unit / 1e6,
        "seconds": dict(report.seconds),
    }


def use_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Run an archive with secrets, and keep all that the web interface shows."""
    of_sources = s3_static_credentials(
        access_key_id="reader", secret_access_key=settings["secret_of_sources"]
    )
    places = Places(
        repository=s3_storage(**settings["repository"]),
        authorize={settings["prefix"]: of_sources},
    )
    report = _run(settings, places, Path(settings["pages"]))
    return {"references": report.num_references, "set_aside": report.num_set_aside}


def _run(
    settings: Mapping[str, Any], places: Places | None = None, pages: Path | None = None
) -> RunReport:
    archive = decode_archive(Path(settings["declaration"]).read_bytes())
    spark = session("a driver of tests", settings["master"], settings["spark"])
    report = run_archive(archive, places=places, engine=SparkEngine(spark))
    if pages is not None:
        address = str(spark.sparkContext.uiWebUrl)
        for number, text in enumerate(_shown(address, spark.sparkContext.applicationId)):
            (pages / f"{number}.html").write_bytes(text)
    spark.stop()
    return report


def _shown(address: str, application: str) -> Iterator[bytes]:
    """Yield every page of the web interface."""
    for page in _PAGES:
        yield _fetched(address, page)
    for page, count in _DETAILS.items():
        yield from (_fetched(address, page.format(number)) for number in range(count))
    for resource_name in _RESOURCES:
        yield _fetched(address, f"api/v1/applications/{application}/{resource_name}")


def _fetched(address: str, page: str) -> bytes:
    with urlopen(urljoin(address + "/", page), timeout=30) as answer:  # noqa: S310  our own server
        text: bytes = answer.read()
    return text


if __name__ == "__main__":
    program = {"memory": measure_memory, "secrets": use_secrets}[sys.argv[1]]
    json.dump(program(json.loads(sys.argv[2])), sys.stdout)
