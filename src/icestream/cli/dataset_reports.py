"""What the commands about datasets show."""

from collections.abc import Mapping, Sequence
from datetime import date, time
from math import isfinite
from typing import TYPE_CHECKING, Any

from icestream.cli.results import Document, Table

if TYPE_CHECKING:
    from icestream.ledger.blocks.times import Timestamp
    from icestream.ledger.chain.rewriting import RewriteResult
    from icestream.ledger.chain.stored_blocks import StoredBlock
    from icestream.ledger.chain.verification import Problem, VerificationReport
    from icestream.ledger.data_writing import AddedData
    from icestream.ledger.dataset import Dataset
    from icestream.ledger.redefining import Redefinition

LISTED = ("name", "kind", "blocks", "records", "watermark", "updated", "dataset_id")
LOGGED = ("block", "system_time", "event", "offsets", "records", "watermark", "hash")
UPDATED = ("name", "appended", "head")
INVALID_EXIT_CODE = 6


def updated_row(done: "Redefinition") -> list[Any]:
    """Return the line of a dataset that was to follow its definition."""
    appended = ", ".join(type(event).__name__ for event in done.events)
    return [done.dataset.alias, appended or "nothing", str(done.dataset.head)]


def listed_row(name: str, dataset: "Dataset") -> list[Any]:
    """Return the line of one of several datasets."""
    head = dataset.state.head
    return [
        name,
        str(dataset.kind),
        head.sequence_number + 1,
        dataset.current.record_count,
        _time(dataset.watermark),
        str(head.block.system_time),
        str(dataset.dataset_id),
    ]


def described(dataset: "Dataset") -> dict[str, Any]:
    """Return what a dataset is."""
    state, head = dataset.state, dataset.state.head
    info, transform = state.info, state.transform
    return {
        "name": dataset.alias,
        "dataset_id": str(dataset.dataset_id),
        "kind": str(dataset.kind),
        "description": None if info is None else info.description,
        "keywords": list((None if info is None else info.keywords) or ()),
        "license": None if state.license is None else state.license.short_name,
        "head": str(dataset.head),
        "blocks": head.sequence_number + 1,
        "updated": str(head.block.system_time),
        "records": dataset.current.record_count,
        "last_offset": dataset.last_offset,
        "watermark": _time(dataset.watermark),
        "columns": _columns(dataset),
        "sources": _sources(dataset),
        "inputs": {}
        if transform is None
        else {given.alias or given.dataset_ref: given.dataset_ref for given in transform.inputs},
    }


def logged_row(block: "StoredBlock") -> list[Any]:
    """Return the line of one block."""
    from icestream.ledger.blocks.events import AddData, ExecuteTransform  # noqa: PLC0415  for speed

    event = block.event
    name, moment = type(event).__name__, str(block.block.system_time)
    offsets, records, watermark = None, None, None
    if isinstance(event, AddData | ExecuteTransform):
        watermark = _time(event.new_watermark)
        if event.new_data is not None:
            interval = event.new_data.offset_interval
            offsets, records = f"{interval.start}..{interval.end}", interval.count
    number = block.sequence_number
    return [number, moment, name, offsets, records, watermark, str(block.block_hash)]


def blocks_document(blocks: Sequence["StoredBlock"]) -> Document:
    """Return blocks in full."""
    from icestream.ledger.blocks.documents import (  # noqa: PLC0415  for speed
        block_tree,
        write_document,
    )

    texts = [f"# {block.block_hash}\n{write_document(block.block).decode()}" for block in blocks]
    trees = [{"hash": str(block.block_hash), **block_tree(block.block)} for block in blocks]
    return Document("---\n".join(texts), trees)


def records_table(records: Any) -> Table:
    """Return the records of an Arrow table."""
    names = records.column_names
    rows = [[shown(row[name]) for name in names] for row in records.to_pylist()]
    return Table(names, rows)


def added_values(dataset: "Dataset", added: Sequence["AddedData"]) -> dict[str, Any]:
    """Return what an ingestion did."""
    written = [each for each in added if not each.is_up_to_date]
    return {
        "status": "updated" if written else "up to date",
        "transactions": len(written),
        "records": sum(each.record_count for each in written),
        "last_offset": dataset.last_offset,
        "watermark": _time(dataset.watermark),
        "head": str(dataset.head),
    }


def rewritten_values(result: "RewriteResult") -> dict[str, Any]:
    """Return what became of a chain."""
    return {
        "changed": result.is_changed,
        "blocks": result.new_blocks,
        "blocks_before": result.old_blocks,
        "head": str(result.new_head),
        "head_before": str(result.old_head),
    }


def verified(report: "VerificationReport") -> Document:
    """Return what a verification found; the first problem stands first."""
    counts = ", ".join(
        counted(number, noun)
        for number, noun in (
            (report.blocks, "block"),
            (report.slices, "slice"),
            (report.checkpoints, "checkpoint"),
        )
    )
    verdict = "valid" if report.is_valid else counted(len(report.problems), "problem")
    lines = [f"{counts} ({report.size_bytes} bytes): {verdict}", *map(_located, report.problems)]
    data = {
        "valid": report.is_valid,
        "blocks": report.blocks,
        "slices": report.slices,
        "checkpoints": report.checkpoints,
        "bytes": report.size_bytes,
        "problems": [
            {
                "object": problem.object_key,
                "rule": problem.rule,
                "block": problem.sequence_number,
                "message": problem.message,
            }
            for problem in report.problems
        ],
    }
    return Document("\n".join(lines), data, 0 if report.is_valid else INVALID_EXIT_CODE)


def _located(problem: "Problem") -> str:
    """Return a problem with the block that it is found at, where the message has another file."""
    is_named = problem.sequence_number is None or problem.object_key.startswith("blocks/")
    return str(problem) if is_named else f"block {problem.sequence_number}: {problem}"


def counted(number: int, noun: str) -> str:
    """Return how many there are of something, in words that fit."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shown(value: Any) -> Any:
    """Return a value of a record in a form that text and JSON have."""
    match value:
        case Mapping():
            return {str(name): shown(item) for name, item in value.items()}
        case list() | tuple():
            return [shown(item) for item in value]
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case int() | str() | None:
            return value
        case _:
            return value if isinstance(value, float) and isfinite(value) else str(value)


def _columns(dataset: "Dataset") -> dict[str, str]:
    from icestream.ledger.data.arrow_schemas import to_arrow_schema  # noqa: PLC0415  loads pyarrow

    schema = dataset.schema
    if schema is None:
        return {}
    return {
        field.name: f"{field.type}{'' if field.nullable else ' not null'}"
        for field in to_arrow_schema(schema)
    }


def _sources(dataset: "Dataset") -> dict[str, str]:
    state = dataset.state
    found: dict[str, Any] = dict(state.push_sources)
    if state.polling_source is not None:
        found["(polling)"] = state.polling_source
    prefix = "MergeStrategy"
    return {name: type(each.merge).__name__.removeprefix(prefix) for name, each in found.items()}


def _time(moment: "Timestamp | None") -> str | None:
    return None if moment is None else str(moment)
