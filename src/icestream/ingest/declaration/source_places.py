"""How the files of an archive are reached, as far as that is no secret."""

from collections.abc import Iterator
from dataclasses import dataclass

from icestream.errors import InvalidInputError
from icestream.model.config_nodes import Fault
from icestream.model.containers import ContainerOptions, VirtualChunkContainer
from icestream.model.locations import prefix_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """How to reach what lies below a prefix; credentials come from elsewhere.

    What is named here may also be read where files of the archive lead to it, such as the data
    behind kerchunk references.
    """

    prefix: str
    platform: str | None = None
    """Such as `minio`; that of the scheme if left out."""
    region: str | None = None
    endpoint_url: str | None = None
    anonymous: bool = False
    allow_http: bool = False
    force_path_style: bool = False
    requester_pays: bool = False
    account: str | None = None
    """Of Azure."""

    def container(self) -> VirtualChunkContainer:
        """Return the virtual chunk container that says the same.

        Raises:
            InvalidInputError: The platform is unknown, or does not have one of the options.
        """
        options = ContainerOptions()
        if self.region is not None:
            options["region"] = self.region
        if self.endpoint_url is not None:
            options["endpoint_url"] = self.endpoint_url
        if self.anonymous:
            options["anonymous"] = True
        if self.allow_http:
            options["allow_http"] = True
        if self.force_path_style:
            options["force_path_style"] = True
        if self.requester_pays:
            options["requester_pays"] = True
        if self.account is not None:
            options["options"] = {"account_name": self.account}
        return VirtualChunkContainer.of(prefix=self.prefix, object_store=self.platform, **options)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the place, which is at `path` in the document."""
        if not self.prefix:
            yield Fault(f"{path}.prefix", "is missing")
            return
        fault = prefix_fault(self.prefix)
        if fault is not None:
            yield Fault(f"{path}.prefix", f"{self.prefix!r} {fault}")
            return
        if self.endpoint_url is not None and "@" in self.endpoint_url:
            reason = "has credentials in it; give them in the environment"
            yield Fault(f"{path}.endpoint-url", reason)
            return
        try:
            yield from self.container().faults(path)
        except InvalidInputError as error:
            yield Fault(path, error.message)
