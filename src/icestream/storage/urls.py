"""Storages by address: a directory, or the URL of a bucket, a container or a web server."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from icestream.errors import ErrorKind, InvalidInputError
from icestream.storage.factories import (
    azure_storage,
    gcs_storage,
    http_storage,
    local_filesystem_storage,
)
from icestream.storage.protocol import Storage
from icestream.storage.s3_factories import s3_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUrl:
    """An address, and how the store behind it is reached; credentials are the environment's."""

    address: str
    region: str | None = None
    endpoint_url: str | None = None
    anonymous: bool = False
    allow_http: bool = False

    def storage(self) -> Storage:
        """Return the storage at the address.

        Raises:
            InvalidInputError: The address is none that can be opened, or an option does not fit it.
        """
        scheme = urlsplit(self.address).scheme if "://" in self.address else ""
        make = _FACTORIES.get(scheme)
        if make is None:
            raise _bad_address(f"{scheme}:// is none of {', '.join(filter(None, _FACTORIES))}")
        self._check_options(scheme)
        return make(self, urlsplit(self.address))

    def _check_options(self, scheme: str) -> None:
        given = {
            "region": self.region is not None,
            "endpoint-url": self.endpoint_url is not None,
            "anonymous": self.anonymous,
            "allow-http": self.allow_http,
        }
        usable = _OPTIONS.get(scheme, ())
        for option, is_given in given.items():
            if is_given and option not in usable:
                what = f"{scheme}://" if scheme else "a directory"
                raise _bad_address(f"the option {option} means nothing for {what}")


def _local(target: StorageUrl, url: SplitResult) -> Storage:
    if url.scheme and url.netloc not in {"", "localhost"}:
        raise _bad_address(f"file:// takes three slashes before {url.netloc!r}")
    return local_filesystem_storage(unquote(url.path) if url.scheme else target.address)


def _s3(target: StorageUrl, url: SplitResult) -> Storage:
    bucket, prefix = _bucket(url)
    return s3_storage(
        bucket=bucket,
        prefix=prefix,
        region=target.region,
        endpoint_url=target.endpoint_url,
        allow_http=target.allow_http,
        anonymous=target.anonymous or None,
    )


def _gcs(target: StorageUrl, url: SplitResult) -> Storage:
    bucket, prefix = _bucket(url)
    return gcs_storage(
        bucket=bucket,
        prefix=prefix,
        anonymous=target.anonymous or None,
    )


def _azure(target: StorageUrl, url: SplitResult) -> Storage:
    account, rest = _bucket(url)
    container, _, prefix = rest.partition("/")
    if not container:
        raise _bad_address("az:// needs an account and a container: az://account/container/prefix")
    return azure_storage(
        account=account,
        container=container,
        prefix=prefix,
        anonymous=target.anonymous or None,
        from_env=not target.anonymous or None,
        config=_azure_options(target),
    )


def _http(_: StorageUrl, url: SplitResult) -> Storage:
    return http_storage(url.geturl())


def _bucket(url: SplitResult) -> tuple[str, str]:
    if not url.netloc:
        raise _bad_address(f"{url.geturl()} names no bucket")
    return url.netloc, url.path.strip("/")


def _azure_options(target: StorageUrl) -> dict[str, str]:
    options = {} if target.endpoint_url is None else {"endpoint": target.endpoint_url}
    return {**options, "allow_http": "true"} if target.allow_http else options


def _bad_address(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{reason}; an address is a directory, file:///directory, s3://bucket/prefix, "
        "gs://bucket/prefix, az://account/container/prefix or https://host/path",
        kind=ErrorKind.CANNOT_PARSE_URL,
    )


_FACTORIES: dict[str, Callable[[StorageUrl, SplitResult], Storage]] = {
    "": _local,
    "file": _local,
    "s3": _s3,
    "gs": _gcs,
    "gcs": _gcs,
    "az": _azure,
    "azure": _azure,
    "http": _http,
    "https": _http,
}

_AZURE = ("endpoint-url", "anonymous", "allow-http")
_OPTIONS = {
    "s3": ("region", *_AZURE),
    "gs": ("anonymous",),
    "gcs": ("anonymous",),
    "az": _AZURE,
    "azure": _AZURE,
}
"""Which options a scheme takes; one that would be ignored is refused."""
