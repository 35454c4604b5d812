"""Virtual datasets of VirtualiZarr written to a session: as references, not as copies."""

from icestream.virtual_datasets.writing import write_virtual_dataset

__all__ = ["write_virtual_dataset"]
