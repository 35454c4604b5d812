"""Checkpoints: what an engine wants to know when it goes on, on this machine or on another.

A query without state leaves a JSON document. One with state leaves a tar file, compressed with
zstd: that document first, and then the checkpoint directory of Spark's stream.
"""

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import zstandard

from icestream.errors import FormatError
from icestream.ledger.blocks.events import SetTransform
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.chain.planning import TransformPlan
from icestream.ledger.transactions import input_watermarks

_FACTS = "engine.json"
_STREAM = "stream/"
_MAGIC = b"\x28\xb5\x2f\xfd"
_LEVEL = 3
_DAMAGED = (zstandard.ZstdError, tarfile.TarError, ValueError, KeyError, TypeError, EOFError)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What is known about the run that wrote a checkpoint."""

    engine: str = ""
    version: str = ""
    """Of the engine; empty if another program wrote the checkpoint."""
    queries: str = ""
    """A hash of the queries that were run."""
    watermarks: Mapping[str, str | None]
    """Of the inputs, by their ids."""

    @classmethod
    def of_run(cls, plan: TransformPlan, *, engine: str, version: str) -> Self:
        """Return the facts of a run."""
        return cls(
            engine=engine,
            version=version,
            queries=queries_hash(plan.transform),
            watermarks=json.loads(input_watermarks(plan))["watermarks"],
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the facts that stand in a document."""
        document = json.loads(data)
        if not isinstance(document, dict):
            raise ValueError(f"{document!r} is no object")  # noqa: TRY004  as json raises
        known = {name: document[name] for name in cls.__slots__ if name in document}
        return cls(**{"watermarks": {}, **known})

    def encode(self) -> bytes:
        """Return the document; the same facts make the same bytes."""
        known = {name: value for name, value in asdict(self).items() if value != ""}
        return json.dumps(known, separators=(",", ":"), sort_keys=True).encode()


def queries_hash(transform: SetTransform) -> str:
    """Return what tells the queries of a transform, and what they read, from others."""
    queries = transform.transform.queries or ()
    document = {
        "inputs": [[given.dataset_ref, given.alias] for given in transform.inputs],
        "queries": [[step.alias, step.query] for step in queries],
    }
    return str(sha3_256(json.dumps(document, sort_keys=True).encode()))


def has_state(data: bytes | None) -> bool:
    """Tell whether a checkpoint holds the state of a stream."""
    return data is not None and data.startswith(_MAGIC)


def read_facts(data: bytes) -> EngineFacts:
    """Return what a checkpoint says about the run that wrote it.

    Raises:
        FormatError: The bytes are no checkpoint of this engine.
    """
    try:
        if not has_state(data):
            return EngineFacts.decode(data)
        with _opened(data) as archive:
            found = archive.next()
            member = None if found is None else archive.extractfile(found)
            return EngineFacts.decode(b"" if member is None else member.read())
    except _DAMAGED as error:
        raise _unreadable(error) from error


def pack_state(folder: Path, facts: EngineFacts) -> bytes:
    """Return the checkpoint directory of a stream as one file; the same files make the same bytes.

    Args:
        folder: Of a stream that has ended.
        facts: About the run.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, _FACTS, facts.encode())
        for path in files:
            # names with a dot are checksums of Hadoop, and files that were never completed
            if not path.name.startswith("."):
                _add(archive, _STREAM + path.relative_to(folder).as_posix(), path.read_bytes())
    return zstandard.ZstdCompressor(level=_LEVEL).compress(buffer.getvalue())


def unpack_state(data: bytes, folder: Path) -> None:
    """Write the checkpoint directory of a stream.

    Args:
        data: From `pack_state`.
        folder: An empty one.

    Raises:
        FormatError: The bytes are no checkpoint of this engine.
    """
    try:
        with _opened(data) as archive:
            members = [member for member in archive if member.name.startswith(_STREAM)]
            for member in members:
                member.name = member.name.removeprefix(_STREAM)
                archive.extract(member, folder, filter="data")
    except _DAMAGED as error:
        raise _unreadable(error) from error


def _opened(data: bytes) -> tarfile.TarFile:
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return tarfile.open(fileobj=io.BytesIO(plain))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # of no time and no owner
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _unreadable(error: Exception) -> FormatError:
    return FormatError(
        f"the checkpoint was not written by this engine, or is damaged: {error}; verify the"
        " dataset, or drop its data (keep_metadata_only) and start over"
    )
