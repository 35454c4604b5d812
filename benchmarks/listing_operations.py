"""The measured listing of an archive on a remote store: what a run costs that finds nothing new."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from benchmarks.measuring import measured
from benchmarks.runs import Metrics, Run
from benchmarks.server_address import ServerAddress
from icestream.storage import s3_storage

_UPLOADS_AT_A_TIME = 16


def list_sources_on_server(run: Run) -> Metrics:
    """List an archive of so many files in a bucket."""
    from icestream.credentials import s3_credentials
    from icestream.ingest.declaration.archives import Archive, Target
    from icestream.ingest.declaration.source_places import SourcePlace
    from icestream.ingest.listing import list_sources
    from icestream.ingest.source_access import SourceAccess

    server = run.server
    if server is None:
        raise ValueError(f"{run.case.operation} needs a server")
    prefix = f"s3://{server.bucket}/listed-{run.case.references}/"
    _upload(server, f"listed-{run.case.references}", run.case.references)
    place = SourcePlace(
        prefix=prefix,
        region="us-east-1",
        endpoint_url=server.endpoint_url,
        allow_http=True,
        force_path_style=True,
    )
    archive = Archive(
        name="benchmark",
        sources=(f"{prefix}**/*.nc",),
        access=(place,),
        target=Target(repository=str(run.work / "none")),
    )
    credentials = s3_credentials(
        access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
    )
    access = SourceAccess.of(archive, authorize={prefix: credentials})
    with measured() as cost:
        listing = list_sources(archive, access)
    assert len(listing) == run.case.references
    return asdict(cost) | {"storage_requests": listing.num_requests}


def _upload(server: ServerAddress, folder: str, count: int) -> None:
    storage = s3_storage(
        bucket=server.bucket,
        prefix=folder,
        endpoint_url=server.direct_url,
        allow_http=True,
        region="us-east-1",
        force_path_style=True,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )
    with ThreadPoolExecutor(_UPLOADS_AT_A_TIME) as pool:
        for _ in pool.map(lambda number: storage.put(_key(number), b"x"), range(count)):
            pass


def _key(number: int) -> str:
    """Return the name of a daily file, a folder per year or so."""
    return f"{number // 365:04}/daily-{number:06}.nc"


OPERATIONS: tuple[Callable[[Run], Metrics], ...] = (list_sources_on_server,)
