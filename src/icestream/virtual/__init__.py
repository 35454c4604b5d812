"""Virtual chunks: ranges of objects that other people wrote."""

from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec"]
