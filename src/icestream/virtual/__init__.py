"""Virtual chunks: ranges of objects that other people wrote.

`write_virtual_dataset` needs xarray and VirtualiZarr, which are loaded when it is first asked for.
"""

import importlib
from collections.abc import Callable
from typing import Any

from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec", "write_virtual_dataset"]

write_virtual_dataset: Callable[..., None]

_ADAPTER = "icestream.virtual_datasets"
"""In a layer above this one: named, never imported from here."""


def __getattr__(name: str) -> Any:
    if name != "write_virtual_dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ADAPTER), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
