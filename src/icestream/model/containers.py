"""Virtual chunk containers, which say where virtual chunks may be, and virtual references."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Unpack, get_args
from urllib.parse import unquote, urlsplit

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.config_nodes import (
    BOOLEAN,
    TEXT,
    U32,
    ConfigNode,
    Fault,
    Part,
    Rule,
    Typed,
    joined,
)
from icestream.model.locations import (
    KNOWN_SCHEMES,
    SCHEME_ALIASES,
    PrefixMap,
    prefix_fault,
    prefix_keys,
    spelled,
)
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
)
from icestream.model.platforms import (
    PLATFORM_OF_SCHEME,
    Platform,
    StoreOptions,
    make_store,
    platform_of,
    s3_options,
)
from icestream.model.storage_config import StorageSettings
from icestream.model.templates import UrlTemplate

__all__ = [
    "ArgumentsRule",
    "ContainerOptions",
    "StoreRule",
    "VirtualChunkContainer",
    "VirtualChunkSpec",
    "s3_options",
]

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


class ArgumentsRule:
    """Default arguments of a template: texts, or None where there is none."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, tuple) or not all(
            isinstance(argument, str | None) for argument in value
        ):
            yield Fault(path, f"{value!r} is not a list of texts")


class ContainerOptions(StoreOptions, total=False):
    """What `VirtualChunkContainer.of` takes besides the place and its platform."""

    url_template: str | None
    default_template_arguments: Sequence[str | None]
    settings: StorageSettings | None


@dataclass(slots=True, repr=False)
class VirtualChunkContainer(ConfigNode):
    """Locations below `url_prefix` are read from `store`.

    icechunk wants a URL that ends with a slash. Here the prefix may also be a scheme (`s3`), a
    scheme of the user's own (`models`), a path without one (`models/dev`), a bucket or an object.
    """

    url_prefix: Annotated[str, TEXT]
    store: Annotated[AnyObjectStoreConfig, StoreRule()]
    name: Annotated[str | None, TEXT] = None
    """With it, locations may be stored as `vcc://name/path`, relative to the prefix."""
    url_template: Annotated[str | None, TEXT] = field(default=None, init=False)
    """With it, the path of `vcc://name/path` fills its placeholders `{}`."""
    default_template_arguments: Annotated[tuple[str | None, ...] | None, ArgumentsRule()] = field(
        default=None, init=False
    )
    settings: Annotated[StorageSettings | None, Part(StorageSettings)] = field(
        default=None, init=False
    )
    """Retries, concurrency and timeouts; unset ones are those of the platform."""
    region_note: Annotated[str | None, TEXT] = field(default=None, init=False)
    """Where the objects are, on platforms whose clients need not know it."""
    store_extra: dict[str, Any] = field(default_factory=dict, init=False)
    """Options of an S3 store that this version does not know, as they were read."""
    own_extra: dict[str, Any] = field(default_factory=dict, init=False)
    """Keys beside those of icechunk that this version does not know, as they were read."""
    is_stored_by_icechunk: bool = field(default=False, init=False, compare=False)
    """It was read from icechunk's own list, and belongs there whatever its rules are by now."""

    @staticmethod
    def of(
        *,
        prefix: str | None = None,
        object_store: Platform | str | AnyObjectStoreConfig | None = None,
        name: str | None = None,
        **options: Unpack[ContainerOptions],
    ) -> "VirtualChunkContainer":
        """Return a container by its platform and how to reach it there.

        Args:
            prefix: What it covers; with `url_template` it may be left out.
            object_store: The platform, by name or as a store; left out, that of the scheme.
            name: For relative locations and for credentials.
            **options: `region`, `endpoint_url`, `anonymous`, `allow_http` and others, see
                `StoreOptions`; `url_template` and `default_template_arguments`; `settings`.

        Raises:
            InvalidInputError: The platform is unknown, or does not have one of the options.
        """
        url_template = options.pop("url_template", None)
        defaults = options.pop("default_template_arguments", None)
        settings = options.pop("settings", None)
        if prefix is None:
            prefix = UrlTemplate(url_template or "").prefix
        store = _store_of(object_store, prefix, options)
        container = VirtualChunkContainer(prefix, store, name)
        container.url_template = url_template
        container.default_template_arguments = None if defaults is None else tuple(defaults)
        container.settings = settings
        if s3_options(store) is None:
            container.region_note = options.get("region")
        return container

    @property
    def platform(self) -> Platform | None:
        """Who runs the store; None for one in memory."""
        return platform_of(self.store)

    @property
    def region(self) -> str | None:
        """The region, if one is given."""
        options = s3_options(self.store)
        return self.region_note if options is None else options.region

    @property
    def template(self) -> UrlTemplate | None:
        """The template with its default arguments, if there is one."""
        if self.url_template is None:
            return None
        return UrlTemplate(self.url_template, self.default_template_arguments or ())

    @property
    def key(self) -> str:
        """What it is called among the containers of a configuration: its template or its prefix."""
        return self.url_template or self.url_prefix

    def identities(self) -> Iterator[tuple[str, str]]:
        """Yield what no other container of a configuration may have, with the name of its field."""
        if self.name is not None:
            yield "name", self.name
        if self.url_template is not None:
            yield "url_template", self.url_template
        else:
            yield from (("url_prefix", key) for key in prefix_keys(str(self.url_prefix)))

    def replaces(self, other: "VirtualChunkContainer") -> bool:
        """Tell whether only one of the two can be in a configuration."""
        return not set(self.identities()).isdisjoint(other.identities())

    def faults(self, path: str = "") -> Iterator[Fault]:
        """Yield everything that is wrong with the container, at `path` in the document."""
        structural = list(ConfigNode.faults(self, path))
        yield from structural
        if not structural:
            yield from self._name_faults(path)
            yield from self._prefix_faults(joined(path, "url_prefix"))
            yield from self._template_faults(joined(path, "url_template"))

    def icechunk_faults(self, path: str = "") -> Iterator[Fault]:
        """Yield why icechunk cannot have this container; it leaves out stored ones of that kind."""
        yield from self._name_faults(path)
        for reason in _icechunk_reasons(self.url_prefix, self.store):
            yield Fault(joined(path, "url_prefix"), f"{self.url_prefix!r} {reason}", tolerated=True)
        if self.url_template is not None:
            yield Fault(joined(path, "url_template"), "is not known to icechunk", tolerated=True)

    def _name_faults(self, path: str) -> Iterator[Fault]:
        if self.name is not None and (not self.name or "/" in self.name):
            reason = f"{self.name!r} is empty or contains '/'"
            yield Fault(joined(path, "name"), reason, tolerated=True)

    def _prefix_faults(self, path: str) -> Iterator[Fault]:
        reason = prefix_fault(self.url_prefix) or _misfit(self.url_prefix, self.store)
        if reason is not None:
            yield Fault(path, f"{self.url_prefix!r} {reason}", tolerated=True)

    def _template_faults(self, path: str) -> Iterator[Fault]:
        template = self.template
        if template is None:
            if self.default_template_arguments:
                yield Fault(path, "is missing, but there are default arguments", tolerated=True)
            return
        for reason in template.faults():
            yield Fault(path, f"{self.url_template!r} {reason}", tolerated=True)
        if self.name is None:
            yield Fault(path, "cannot be used without a name", tolerated=True)
        if not _is_below(template.prefix, self.url_prefix):
            reason = f"{self.url_template!r} is not below {self.url_prefix!r}"
            yield Fault(path, reason, tolerated=True)


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


def _icechunk_reasons(url_prefix: str, store: AnyObjectStoreConfig) -> Iterator[str]:
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


def _misfit(url_prefix: str, store: AnyObjectStoreConfig) -> str | None:
    """Return why a prefix and a store do not go together.

    A scheme that everybody knows must mean what everybody expects: who consents to reading below
    `s3://bucket` has not consented to local files.
    """
    if isinstance(store, ObjectStoreConfig.InMemory):
        return "does not fit a store in memory, which holds no objects of others"
    scheme, separator, _ = prefix_keys(url_prefix)[0].partition(":")
    fitting = {SCHEME_ALIASES.get(name, name) for name in _SCHEMES[type(store)]}
    if separator and scheme in KNOWN_SCHEMES and scheme not in fitting:
        return f"does not fit the store {type(store).__name__}"
    return None


def _is_below(folder: str, prefix: str) -> bool:
    something = f"{unquote(spelled(folder))}x"
    return PrefixMap.of({prefix: True}).find_canonical(something) is not None


def _store_of(
    object_store: Platform | str | AnyObjectStoreConfig | None,
    prefix: str,
    options: StoreOptions,
) -> AnyObjectStoreConfig:
    if isinstance(object_store, str) or object_store is None:
        return make_store(_platform(object_store, prefix), **options)
    if options:
        raise InvalidInputError(
            f"{', '.join(options)} must be in the store that is given as object_store",
            kind=ErrorKind.INVALID_CONFIG,
        )
    return object_store


def _platform(name: str | None, prefix: str) -> Platform:
    """Return the platform of a name; without one, that of the scheme of the prefix."""
    if name is None:
        scheme = prefix_keys(prefix)[0].partition(":")[0]
        name = PLATFORM_OF_SCHEME.get(scheme)
    if name not in set(Platform):
        raise InvalidInputError(
            f"object_store is {name!r} for the prefix {prefix!r}; give one of "
            f"{', '.join(Platform)}",
            kind=ErrorKind.INVALID_CONFIG,
        )
    return Platform(name)
