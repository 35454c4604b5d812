"""Virtual chunk containers, which say where virtual chunks may be, and virtual references."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from icestream.model.config_nodes import BOOLEAN, TEXT, U32, ConfigNode, Fault, Rule, Typed, joined
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)

_SCHEMES: Mapping[type[AnyObjectStoreConfig], frozenset[str]] = {
    ObjectStoreConfig.InMemory: frozenset(),
    ObjectStoreConfig.LocalFileSystem: frozenset({"file"}),
    ObjectStoreConfig.S3: frozenset({"s3"}),
    ObjectStoreConfig.S3Compatible: frozenset({"s3"}),
    ObjectStoreConfig.Tigris: frozenset({"tigris", "s3"}),
    ObjectStoreConfig.Gcs: frozenset({"gs", "gcs"}),
    ObjectStoreConfig.Azure: frozenset({"az", "azure", "abfs"}),
    ObjectStoreConfig.Http: frozenset({"http", "https"}),
}

_S3_RULES: Mapping[str, Rule] = {
    "region": TEXT,
    "endpoint_url": TEXT,
    "anonymous": BOOLEAN,
    "allow_http": BOOLEAN,
    "force_path_style": BOOLEAN,
    "network_stream_timeout_seconds": U32,
    "requester_pays": BOOLEAN,
    "checksum_algorithm": Typed(ChecksumAlgorithm, "a ChecksumAlgorithm"),
}


class StoreRule:
    """One of the variants of `ObjectStoreConfig`, with options that can be stored."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, get_args(AnyObjectStoreConfig)):
            yield Fault(path, f"{value!r} is not a variant of ObjectStoreConfig")
            return
        for option, setting in _text_options(value):
            if not isinstance(setting, str):  # the value may be a secret: it is not shown
                yield Fault(joined(path, option), f"a {type(setting).__name__} is not a text")
        options = s3_options(value)
        for name, rule in _S3_RULES.items() if options else ():
            setting = getattr(options, name)
            if setting is not None:
                yield from rule.faults(setting, joined(path, name))


@dataclass(slots=True, repr=False)
class VirtualChunkContainer(ConfigNode):
    """Locations that start with `url_prefix` are read from `store`."""

    url_prefix: Annotated[str, TEXT]
    """A URL that ends with a slash."""
    store: Annotated[AnyObjectStoreConfig, StoreRule()]
    name: Annotated[str | None, TEXT] = None
    """With it, locations may be stored as `vcc://name/path`, relative to the prefix."""
    store_extra: dict[str, Any] = field(default_factory=dict, init=False)
    """Options of an S3 store that this version does not know, as they were read."""

    def faults(self, path: str = "") -> Iterator[Fault]:
        """Yield everything that is wrong with the container, at `path` in the document."""
        structural = list(ConfigNode.faults(self, path))
        yield from structural
        if not structural:
            yield from self._name_faults(path)
            yield from self._prefix_faults(joined(path, "url_prefix"))

    def _name_faults(self, path: str) -> Iterator[Fault]:
        if self.name is not None and (not self.name or "/" in self.name):
            reason = f"{self.name!r} is empty or contains '/'"
            yield Fault(joined(path, "name"), reason, tolerated=True)

    def _prefix_faults(self, path: str) -> Iterator[Fault]:
        """Apply the rules of icechunk, which leaves out stored containers that break them."""
        for reason in _prefix_reasons(self.url_prefix, self.store):
            yield Fault(path, f"{self.url_prefix!r} {reason}", tolerated=True)


@dataclass(frozen=True, slots=True)
class VirtualChunkSpec:
    """A reference to a chunk in a foreign file."""

    index: list[int]
    """Coordinates in the chunk grid."""
    location: str
    """URL of the file; its path is the object key, with reserved characters percent-encoded."""
    offset: int
    """First byte of the chunk in the file."""
    length: int
    """Number of bytes."""
    etag_checksum: str | None = None
    """Reading is refused if the file has another ETag by then."""
    last_updated_at_checksum: datetime | None = None
    """Reading is refused if the file was changed after this time."""


def s3_options(store: AnyObjectStoreConfig) -> S3Options | None:
    """Return the S3 options of a store, if it is of that family."""
    match store:
        case ObjectStoreConfig.S3() | ObjectStoreConfig.S3Compatible():
            return store.options
        case ObjectStoreConfig.Tigris():
            return store.opts
        case _:
            return None


def _text_options(store: AnyObjectStoreConfig) -> Iterator[tuple[str, Any]]:
    match store:
        case ObjectStoreConfig.LocalFileSystem():
            yield "local_file_system", store.path
        case ObjectStoreConfig.Gcs() | ObjectStoreConfig.Azure():
            yield from (store.opts or {}).items()
        case ObjectStoreConfig.Http():
            yield from (store.opts or {}).items()
            yield from (store.headers or {}).items()
        case _:
            return


def _prefix_reasons(url_prefix: str, store: AnyObjectStoreConfig) -> Iterator[str]:
    try:
        url = urlsplit(url_prefix)
    except ValueError as error:
        yield f"is not a URL: {error}"
        return
    if not url_prefix.endswith("/"):
        yield "does not end with '/'"
    if not url.scheme:
        yield "has no scheme, such as s3://"
    elif url.scheme not in _SCHEMES[type(store)]:
        yield f"does not fit the store {type(store).__name__}"
    elif url.scheme == "file":
        if url.path in {"", "/"}:
            yield "names no folder"
    elif not url.netloc or " " in url.netloc:
        yield "names no bucket or host"
