"""Archives of foreign files, for programs: declare one, scan it, run it, take a run back.

>>> from icestream.archives import Archive, Axis, Combination, Target
>>> archive = Archive(
...     name="sst",
...     sources=("s3://bucket/sst/*.nc",),
...     target=Target(repository="s3://bucket/sst-repository"),
...     combine=Combination(along=(Axis(dimension="time", step="1 day"),)),
... )
>>> list(archive.faults())
[]

`run_archive(archive)` makes the repository follow the files; on Spark it is
`run_archive(archive, engine=icestream.spark.SparkEngine(icestream.spark.session()))`.
"""

from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnBroken,
    OnChanged,
    OnMismatch,
    OnVanished,
    ParserChoice,
    PlaceBy,
    Policies,
    Target,
)
from icestream.ingest.declaration.documents import decode_archive, encode_archive
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.engines.protocol import Engine
from icestream.ingest.engines.serial import SerialEngine
from icestream.ingest.opened_archives import Places
from icestream.ingest.progress import Progress
from icestream.ingest.recovering import RecoveryReport, recover_archive
from icestream.ingest.reports import ScanReport
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.ingest.scanning_ahead import scan_archive
from icestream.ingest.statuses import ArchiveStatus, archive_status
from icestream.ingest.undoing import undo_run

__all__ = [
    "Archive",
    "ArchiveStatus",
    "Axis",
    "Combination",
    "Engine",
    "OnBroken",
    "OnChanged",
    "OnMismatch",
    "OnVanished",
    "ParserChoice",
    "PlaceBy",
    "Places",
    "Policies",
    "Progress",
    "RecoveryReport",
    "RunReport",
    "ScanReport",
    "SerialEngine",
    "SourcePlace",
    "Target",
    "archive_status",
    "decode_archive",
    "encode_archive",
    "recover_archive",
    "run_archive",
    "scan_archive",
    "undo_run",
]
