"""Open Data Fabric datasets: hash-linked blocks with carried offsets.

    Workspace ── names ──► Dataset ── current, as_of ──► DatasetVersion ──► PyArrow
                              │
                              └── MetadataChain    blocks, rules, the head
                                    └── Storage    blocks/ data/ checkpoints/ refs/head

Everything is imported when it is first used: who only decodes a block loads no Arrow.

>>> from icestream.ledger import Multihash, SetInfo
>>> SetInfo(description="ice").description
'ice'
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icestream.ledger.blocks.dataset_ids import DatasetId, new_dataset_id
    from icestream.ledger.blocks.decoding import decode_block
    from icestream.ledger.blocks.documents import read_documents, read_snapshots, write_document
    from icestream.ledger.blocks.encoding import block_hash, encode_block
    from icestream.ledger.blocks.events import (
        AddData,
        AddPushSource,
        DatasetKind,
        DataSlice,
        DisablePollingSource,
        DisablePushSource,
        ExecuteTransform,
        ExecuteTransformInput,
        MetadataBlock,
        OffsetInterval,
        Seed,
        SetAttachments,
        SetDataSchema,
        SetInfo,
        SetLicense,
        SetPollingSource,
        SetTransform,
        SetVocab,
    )
    from icestream.ledger.blocks.hashes import Multihash
    from icestream.ledger.blocks.names import DatasetAlias
    from icestream.ledger.blocks.snapshots import DatasetSnapshot
    from icestream.ledger.blocks.times import Timestamp
    from icestream.ledger.chain.planning import TransformPlan, UpToDate
    from icestream.ledger.chain.rewriting import CompactionLimits
    from icestream.ledger.chain.verification import VerificationReport
    from icestream.ledger.data.logical_hash import logical_hash
    from icestream.ledger.data_writing import AddedData
    from icestream.ledger.dataset import Dataset
    from icestream.ledger.dataset_versions import DatasetVersion
    from icestream.ledger.ingestion import IngestSettings
    from icestream.ledger.redefining import update_datasets
    from icestream.ledger.transactions import TransformOutput
    from icestream.ledger.workspace import Workspace

_MODULES = {
    "blocks.dataset_ids": ("DatasetId", "new_dataset_id"),
    "blocks.decoding": ("decode_block",),
    "blocks.documents": ("read_documents", "read_snapshots", "write_document"),
    "blocks.encoding": ("block_hash", "encode_block"),
    "blocks.events": (
        "AddData",
        "AddPushSource",
        "DataSlice",
        "DatasetKind",
        "DisablePollingSource",
        "DisablePushSource",
        "ExecuteTransform",
        "ExecuteTransformInput",
        "MetadataBlock",
        "OffsetInterval",
        "Seed",
        "SetAttachments",
        "SetDataSchema",
        "SetInfo",
        "SetLicense",
        "SetPollingSource",
        "SetTransform",
        "SetVocab",
    ),
    "blocks.hashes": ("Multihash",),
    "blocks.names": ("DatasetAlias",),
    "blocks.snapshots": ("DatasetSnapshot",),
    "blocks.times": ("Timestamp",),
    "chain.planning": ("TransformPlan", "UpToDate"),
    "chain.rewriting": ("CompactionLimits",),
    "chain.verification": ("VerificationReport",),
    "data.logical_hash": ("logical_hash",),
    "data_writing": ("AddedData",),
    "dataset": ("Dataset",),
    "dataset_versions": ("DatasetVersion",),
    "ingestion": ("IngestSettings",),
    "redefining": ("update_datasets",),
    "transactions": ("TransformOutput",),
    "workspace": ("Workspace",),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "AddData",
    "AddPushSource",
    "AddedData",
    "CompactionLimits",
    "DataSlice",
    "Dataset",
    "DatasetAlias",
    "DatasetId",
    "DatasetKind",
    "DatasetSnapshot",
    "DatasetVersion",
    "DisablePollingSource",
    "DisablePushSource",
    "ExecuteTransform",
    "ExecuteTransformInput",
    "IngestSettings",
    "MetadataBlock",
    "Multihash",
    "OffsetInterval",
    "Seed",
    "SetAttachments",
    "SetDataSchema",
    "SetInfo",
    "SetLicense",
    "SetPollingSource",
    "SetTransform",
    "SetVocab",
    "Timestamp",
    "TransformOutput",
    "TransformPlan",
    "UpToDate",
    "VerificationReport",
    "Workspace",
    "block_hash",
    "decode_block",
    "encode_block",
    "logical_hash",
    "new_dataset_id",
    "read_documents",
    "read_snapshots",
    "update_datasets",
    "write_document",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
