"""Which object store, and how to reach it: the part of a configuration that travels openly."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ChecksumAlgorithm(Enum):
    """Checksum that S3 is asked to verify on writes."""

    Crc32 = 0
    Crc32c = 1
    Crc64Nvme = 2
    Sha1 = 3
    Sha256 = 4


@dataclass(slots=True)
class S3Options:
    """How to reach an S3 or S3-compatible store; mutable, as in icechunk."""

    region: str | None = None
    endpoint_url: str | None = None
    allow_http: bool = False
    anonymous: bool = False
    force_path_style: bool = False
    network_stream_timeout_seconds: int | None = None
    """Give up when no byte arrives for so long; 0 = never, None = the client's default."""
    requester_pays: bool = False
    checksum_algorithm: ChecksumAlgorithm | None = None


class ObjectStoreConfig:
    """A platform and its options; the variants are nested classes, as in icechunk."""

    @dataclass(frozen=True, slots=True)
    class InMemory:
        """Objects in the memory of the process."""

    @dataclass(frozen=True, slots=True)
    class LocalFileSystem:
        """Files below `path`."""

        path: str

    @dataclass(frozen=True, slots=True)
    class S3:
        """Amazon S3."""

        options: S3Options

    @dataclass(frozen=True, slots=True)
    class S3Compatible:
        """Another store with the S3 interface: MinIO, Ceph, R2 and others."""

        options: S3Options

    @dataclass(frozen=True, slots=True)
    class Tigris:
        """Tigris, by its S3 interface."""

        opts: S3Options

    @dataclass(frozen=True, slots=True)
    class Gcs:
        """Google Cloud Storage, with options of the object-store client."""

        opts: Mapping[str, str] | None = None

        def __repr__(self) -> str:
            return f"ObjectStoreConfig.Gcs(opts={_masked(self.opts)})"

    @dataclass(frozen=True, slots=True)
    class Azure:
        """Azure Blob Storage, with options of the object-store client."""

        opts: Mapping[str, str] | None = None

        def __repr__(self) -> str:
            return f"ObjectStoreConfig.Azure(opts={_masked(self.opts)})"

    @dataclass(frozen=True, slots=True)
    class Http:
        """A web server, with options of the HTTP client and headers for every request."""

        opts: Mapping[str, str] | None = None
        headers: Mapping[str, str] | None = None

        def __repr__(self) -> str:
            headers = None if self.headers is None else dict.fromkeys(self.headers, _MASK)
            return f"ObjectStoreConfig.Http(opts={_masked(self.opts)}, headers={headers})"


AnyObjectStoreConfig = (
    ObjectStoreConfig.InMemory
    | ObjectStoreConfig.LocalFileSystem
    | ObjectStoreConfig.S3
    | ObjectStoreConfig.S3Compatible
    | ObjectStoreConfig.Gcs
    | ObjectStoreConfig.Azure
    | ObjectStoreConfig.Tigris
    | ObjectStoreConfig.Http
)

_MASK = "****"
_SECRET_WORDS = ("key", "token", "secret", "password", "sas", "credential", "authorization")


def _masked(opts: Mapping[str, str] | None) -> dict[str, str] | None:
    """Hide what may be a secret: people put keys into options, and options into logs."""
    if opts is None:
        return None
    return {
        name: _MASK if any(word in name.lower() for word in _SECRET_WORDS) else value
        for name, value in opts.items()
    }
