"""Where the S3 server of a run is."""

from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """An S3 server on loopback."""

    endpoint_url: str
    """Where every request is delayed and counted."""
    direct_url: str
    """Where none is."""
    bucket: str
    access_key_id: str
    secret_access_key: str

    def to_json(self) -> dict[str, str]:
        """Return the address as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, str]) -> Self:
        """Return the address of plain values."""
        return cls(**values)
