"""`icestream dataset create-array`: arrays that follow other arrays."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.declarations import absolute_source
from icestream.cli.results import Done, Result

if TYPE_CHECKING:
    from icestream.ingest.array_derivation.declarations import ArrayPlace

# What opens datasets is imported by the command: `icestream --help` must be quick.

app = new_group("Declare derived arrays.")


@command(app, "create-array", of="workspace of datasets")
def create_array(
    target: Target,
    declaration: Annotated[
        typer.FileBinaryRead,
        typer.Argument(help="YAML file that declares the derived array; - is standard input."),
    ],
) -> Result:
    """Declare an array that is computed from another one whenever it is pulled."""
    from icestream.ingest.array_derivation.declarations import decode_derivation  # noqa: PLC0415  loads yaml
    from icestream.ingest.array_derivation.ledger_side import create_derived_array  # noqa: PLC0415  loads pyarrow
    from icestream.ledger.workspace import Workspace  # noqa: PLC0415  loads pyarrow

    name = getattr(declaration, "name", "standard input")
    found = decode_derivation(declaration.read(), name=name)
    found = replace(found, input=_absolute(found.input), output=_absolute(found.output))
    dataset = create_derived_array(Workspace(target.storage()), found)
    told = f"created {found.name}; compute it with `icestream dataset pull`"
    return Done(told, {"name": found.name, "dataset_id": str(dataset.dataset_id)})


def _absolute(place: "ArrayPlace") -> "ArrayPlace":
    return replace(place, repository=absolute_source(place.repository))
