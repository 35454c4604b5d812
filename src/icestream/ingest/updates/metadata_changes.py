"""Do documents of arrays say the same, and do chunks that were made for one fit the other?"""

import json
from collections.abc import Mapping
from typing import Any

from icestream.ingest.facts import MEANING

_LAYOUT = ("data_type", "chunk_grid", "codecs", "fill_value", "dimension_names")

_canonical = json.JSONEncoder(sort_keys=True).encode


def are_same(one: Any, other: Any) -> bool:
    """Tell whether two documents are the same as JSON: tuples are lists, and NaN is NaN."""
    return one is other or _canonical(one) == _canonical(other)


def have_same_layout(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether chunks of one array mean the same in the other."""
    return are_same(_layout(one), _layout(other))


def _layout(document: Mapping[str, Any]) -> dict[str, Any]:
    attributes = document.get("attributes", {})
    meaning = {key: attributes[key] for key in (*MEANING, "calendar") if key in attributes}
    return {**{key: document.get(key) for key in _LAYOUT}, "attributes": meaning}
