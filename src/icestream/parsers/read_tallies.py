"""What a scan asks of stores, counted."""

from dataclasses import dataclass, field

from icestream.parsers.scanned_files import ScanCost


@dataclass(frozen=True, slots=True)
class ReadTally:
    """Requests of one scan; threads may share it."""

    _sizes: list[int] = field(default_factory=list)

    def add(self, url: str, num_bytes: int = 0) -> None:
        """Count one request and what it brought; files of this machine are read without any."""
        if not url.startswith("file:"):
            self._sizes.append(num_bytes)

    @property
    def cost(self) -> ScanCost:
        """All requests so far."""
        return ScanCost(len(self._sizes), sum(self._sizes))
