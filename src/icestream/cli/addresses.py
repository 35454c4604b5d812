"""Repositories by address: a directory, or the URL of a bucket."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icestream.repository.repository import Repository
    from icestream.storage.protocol import Storage

# What opens repositories is imported by the commands that do: `icestream --help` must be quick.


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A repository, and how its store is reached."""

    address: str
    region: str | None = None
    endpoint_url: str | None = None
    anonymous: bool = False
    allow_http: bool = False

    def storage(self) -> "Storage":
        """Return the storage at the address.

        Raises:
            InvalidInputError: The address is no directory or URL that can hold a repository.
        """
        from icestream.storage.urls import StorageUrl  # noqa: PLC0415  loads numpy

        return StorageUrl(
            address=self.address,
            region=self.region,
            endpoint_url=self.endpoint_url,
            anonymous=self.anonymous,
            allow_http=self.allow_http,
        ).storage()

    def open(self) -> "Repository":
        """Open the repository at the address."""
        from icestream.repository.repository import Repository  # noqa: PLC0415  loads zarr

        return Repository.open(self.storage())
