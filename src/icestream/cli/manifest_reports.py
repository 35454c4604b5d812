"""Advice on manifests, for people and for programs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from icestream.cli.results import Document

if TYPE_CHECKING:
    from icestream.packing.advice import ManifestAdvice
    from icestream.packing.format_limits import FormatLimit
    from icestream.packing.prediction import Prediction, ReadCost

    Figure = Callable[[Prediction], int | None]

_FIGURES: "dict[str, Figure]" = {
    "manifests": lambda cost: cost.total.manifests,
    "references": lambda cost: cost.total.references,
    "manifest_bytes": lambda cost: cost.total.num_bytes,
    "largest_manifest": lambda cost: cost.largest_manifest,
    "commit_manifests": lambda cost: cost.commit.manifests,
    "commit_references": lambda cost: cost.commit.references,
    "commit_bytes": lambda cost: cost.commit.num_bytes,
    "coordinate_read_requests": lambda cost: _requests(cost.coordinate_read),
    "coordinate_read_bytes": lambda cost: _num_bytes(cost.coordinate_read),
    "chunk_read_requests": lambda cost: _requests(cost.chunk_read),
    "chunk_read_bytes": lambda cost: _num_bytes(cost.chunk_read),
}

_COLUMNS = ("now", "later", "proposed")

_EXPLANATION = """\
commit: what one append writes, at most. read: what is fetched before the first chunk of a fresh
process, at most. largest manifest: in references. Bytes are estimates."""


def report(advice: "ManifestAdvice") -> Document:
    """Return the advice as a text, and as plain values."""
    from icestream.codec.configs import show_config  # noqa: PLC0415  loads numpy
    from icestream.model.config import RepositoryConfig  # noqa: PLC0415  as above
    from icestream.model.manifest_config import ManifestConfig  # noqa: PLC0415  as above

    config = RepositoryConfig()
    config.chunk_manifests = advice.proposal.chunk_manifests
    if advice.proposal.splitting is not None:
        config.manifest = ManifestConfig(splitting=advice.proposal.splitting)
    document, settings = show_config(config)
    data = {
        "years": advice.goals.years,
        "now": _figures(advice.now),
        "later": _figures(advice.later),
        "proposed": _figures(advice.proposed),
        "arrays": _reads(advice),
        "warnings": _warnings(advice),
        "proposal": settings,
    }
    return Document(_text(advice, data, document), data)


def _requests(read: "ReadCost | None") -> int | None:
    return None if read is None else read.requests


def _num_bytes(read: "ReadCost | None") -> int | None:
    return None if read is None else read.num_bytes


def _figures(cost: "Prediction") -> dict[str, Any]:
    sets = {
        name: {"manifests": use.manifests, "references": use.references, "bytes": use.num_bytes}
        for name, use in cost.sets.items()
    }
    return {name: figure(cost) for name, figure in _FIGURES.items()} | {"sets": sets}


def _reads(advice: "ManifestAdvice") -> list[dict[str, Any]]:
    """Return what the first chunk of each array costs, the dearest first."""
    proposed = {read.path: read.num_bytes for read in advice.proposed.reads}
    later = {read.path: read.num_bytes for read in advice.later.reads}
    rows = [
        {
            "path": read.path,
            "requests": read.requests,
            "bytes_now": read.num_bytes,
            "bytes_later": later.get(read.path),
            "bytes_proposed": proposed.get(read.path),
        }
        for read in advice.now.reads
    ]
    return sorted(rows, key=lambda row: -row["bytes_now"])


def _warnings(advice: "ManifestAdvice") -> list[dict[str, Any]]:
    """Return the limits that are reached within the years looked ahead."""
    today = datetime.now(UTC).date()
    pairs: Iterable[tuple[FormatLimit, FormatLimit]] = zip(
        advice.limits, advice.proposed_limits, strict=True
    )
    return [
        {
            "limit": limit.name,
            "value": limit.value,
            "at_most": limit.limit,
            "reached_on": limit.reached_on.isoformat(),
            "reached_on_as_proposed": proposed.reached_on and proposed.reached_on.isoformat(),
        }
        for limit, proposed in pairs
        if limit.reached_on is not None and limit.is_near(today, advice.goals.years)
    ]


def _text(advice: "ManifestAdvice", data: dict[str, Any], document: str) -> str:
    ahead = f"in {advice.goals.years:g} years"
    rows = [["", "now", ahead, f"{ahead}, as proposed"]]
    rows += [
        [name.replace("_", " "), *(_number(data[when][name]) for when in _COLUMNS)]
        for name in _FIGURES
    ]
    warnings = [
        f"warning: {one['limit']}: {_number(one['value'])} of {_number(one['at_most'])}, reached "
        f"on {one['reached_on']}, as proposed {one['reached_on_as_proposed'] or 'never'}"
        for one in data["warnings"]
    ]
    parts = [_grid(rows), _EXPLANATION, "\n".join(warnings), f"proposal:\n\n{document}"]
    return "\n\n".join(part for part in parts if part)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _grid(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *numbers in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
