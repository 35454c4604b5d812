"""`icestream manifests`: how references are packed, and how they could be."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, local_command, new_group
from icestream.cli.manifest_reports import report
from icestream.cli.results import Result, Table
from icestream.cli.versions import VERSION_HELP, selected

app = new_group("Look at the manifests of a version, and plan those of the future.")

Version = Annotated[str, typer.Argument(help=VERSION_HELP)]
Years = Annotated[float, typer.Option(min=0, help="How many years to look ahead.")]
MaxCommitReferences = Annotated[
    int, typer.Option(min=1, help="References that an append may write anew.")
]
MaxManifestSize = Annotated[
    int | None, typer.Option(min=1, help="References per manifest; chosen if left out.")
]


@command(app, "list")
def list_manifests(
    target: Target,
    version: Version = "main",
    *,
    paths: Annotated[
        bool, typer.Option("--paths", help="Show the paths of arrays, not their number.")
    ] = False,
) -> Result:
    """List the manifests that a version refers to, the largest first.

    The set is where the rules in force send all arrays of a manifest.
    """
    repo = target.open()
    rows = [
        (
            one.id,
            one.set_name,
            one.arrays if paths else len(one.arrays),
            one.references,
            one.size_bytes,
        )
        for one in repo.list_manifests(**selected(repo, version))
    ]
    return Table(("manifest", "set", "arrays", "references", "bytes"), rows)


@command(app, "advise")
def advise(  # noqa: PLR0913  each is an option
    target: Target,
    version: Version = "main",
    *,
    appends_per_day: Annotated[
        float | None, typer.Option(min=0, help="Commits that append; measured if left out.")
    ] = None,
    append_dimension: Annotated[
        str | None, typer.Option(metavar="NAME", help="What grows; measured if left out.")
    ] = None,
    chunks_per_append: Annotated[
        float, typer.Option(min=0, help="Along that dimension, with each commit.")
    ] = 1.0,
    years: Years = 1.0,
    max_commit_references: MaxCommitReferences = 1_000_000,
    max_manifest_size: MaxManifestSize = None,
) -> Result:
    """Predict what commits and first reads cost, and propose sets and splits.

    Only snapshots are read. How arrays grow is taken from the last hundred commits. The proposal
    is a configuration for `icestream config load`.
    """
    from icestream.packing.advice import Goals  # noqa: PLC0415  loads numpy
    from icestream.repository.manifest_advice import GrowthAssumption  # noqa: PLC0415  as above

    repo = target.open()
    growth = GrowthAssumption(
        appends_per_day=appends_per_day,
        append_dimension=append_dimension,
        chunks_per_append=chunks_per_append,
    )
    goals = Goals(
        years=years,
        max_commit_references=max_commit_references,
        max_manifest_size=max_manifest_size,
    )
    version_of = selected(repo, version)
    return report(repo.advise_manifests(**version_of, growth=growth, goals=goals))


@local_command(app, "plan")
def plan(
    file: Annotated[typer.FileText, typer.Argument(help="YAML file; - is standard input.")],
    *,
    years: Years = 1.0,
    max_commit_references: MaxCommitReferences = 1_000_000,
    max_manifest_size: MaxManifestSize = None,
) -> Result:
    """Advise on a repository that does not exist yet.

    The file has appends-per-day, and under arrays for each its path, its chunks per dimension and
    how many chunks-per-append are added along append-dimension; chunk-manifests and manifest as in
    a configuration say what to compare the proposal with.
    """
    from icestream.cli.plans import read_plan  # noqa: PLC0415  loads numpy
    from icestream.packing.advice import Goals  # noqa: PLC0415  as above
    from icestream.packing.advice import advise as advise_on  # noqa: PLC0415  as above

    workload, packing = read_plan(file.read(), file.name)
    goals = Goals(
        years=years,
        max_commit_references=max_commit_references,
        max_manifest_size=max_manifest_size,
    )
    return report(advise_on(workload, packing, goals, datetime.now(UTC).date()))
