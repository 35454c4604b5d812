"""Names that documents may use: today's ones, and those that they had when RFC-014 was written."""

from collections.abc import Mapping

from icestream.ledger.blocks.events import AddData, ExecuteTransform, ExecuteTransformInput

OLD_KINDS: Mapping[str, str] = {"ExecuteQuery": "ExecuteTransform"}
"""Earlier names of union members."""

_OLD_DATA_KEYS = {
    "inputCheckpoint": "prevCheckpoint",
    "outputData": "newData",
    "outputCheckpoint": "newCheckpoint",
    "outputWatermark": "newWatermark",
}
OLD_KEYS: Mapping[type, Mapping[str, str]] = {
    AddData: _OLD_DATA_KEYS
    | {"sourceState": "newSourceState", "outputSourceState": "newSourceState"},
    ExecuteTransform: _OLD_DATA_KEYS | {"inputSlices": "queryInputs"},
}
"""Earlier names of fields, whose values have the same form."""

REFUSED_KEYS: Mapping[type, Mapping[str, str]] = {
    ExecuteTransformInput: {
        "blockInterval": "inputs have no closed intervals (RFC-014): give prevBlockHash and"
        " newBlockHash",
        "offsetInterval": "inputs have no closed intervals (RFC-014): give prevOffset and"
        " newOffset",
    }
}
"""Earlier fields that mean something else, and what to give instead."""


def spellings_of(name: str) -> tuple[str, ...]:
    """Return how a kind or a member of an enumeration may be written; the first is canonical.

    >>> spellings_of("NdJson")
    ('NdJson', 'ndJson', 'ndjson')
    """
    return name, name[:1].lower() + name[1:], name.lower()
