"""What a reader has consented to fetch, and the credentials to present there. Pure.

The keys of `authorize_virtual_chunk_access`:

- A prefix (the scheme of a platform such as `s3`, or any text with a slash: `models://`,
  `s3://bucket/`, `models/dev`) authorises everything below it and may supply credentials, which
  prefixes below it inherit. With `None` it supplies none.
- Any other word is the name of a container: it supplies credentials and authorises nothing, because
  the repository decides what is behind a name.
- `*` supplies the default credentials for virtual chunks and authorises nothing.

Local files, loopback and link-local addresses need a prefix that names the path or host. Where the
stored configuration sends requests to an endpoint of its own, only credentials given for that very
container's prefix go there; all others, and any at all if the endpoint is local, need the reader to
name the endpoint: as a key (`http://localhost:9000`), or in a container passed at open.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from icestream.credentials import AnyCredential
from icestream.errors import AccessError, ErrorKind, InvalidInputError
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import (
    KNOWN_SCHEMES,
    SCHEME_ALIASES,
    ObjectAddress,
    PrefixMap,
    canonical_location,
    prefix_fault,
    prefix_keys,
    spelled,
    split_location,
)
from icestream.model.platforms import Platform, platform_of
from icestream.virtual.credential_rules import (
    credential_kinds,
    needs_credentials,
    presents_secrets,
)
from icestream.virtual.endpoints import endpoints_of, is_local_address

DEFAULT_CREDENTIALS = "*"
"""The key of the credentials for containers that have none of their own."""


class CredentialSource(StrEnum):
    """Which rule supplied the credentials for a location."""

    CONTAINER = "container"
    """The name of the container is a key."""
    PREFIX = "prefix"
    """The longest covering prefix that has credentials."""
    DEFAULT = "default"
    """The default for virtual chunks, key `*`."""
    REPOSITORY = "repository"
    """None were given: the repository's own on the same platform, else those of the environment."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Consent to read one location, and what to present there."""

    source: CredentialSource
    key: str | None = None
    """The key of `authorize_virtual_chunk_access` that supplied the credentials."""
    credentials: AnyCredential | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CredentialNeed:
    """What a reader must provide to read from one container, and what is there already."""

    name: str | None
    prefix: str
    platform: Platform | None
    credential_kinds: tuple[str, ...]
    """Classes in `icestream.credentials.Credentials` that fit."""
    is_authorized: bool
    """Whether everything below the prefix may be read."""
    authorized_parts: tuple[str, ...]
    """The keys that authorise parts of it only."""
    is_supplied: bool
    """Whether credentials were given for it, the repository's own serve, or none are needed."""
    source: CredentialSource
    """Where credentials come from, as things stand."""
    remedy: str | None = None
    """The argument that is missing, if any."""


@dataclass(frozen=True, slots=True)
class _Consent:
    """One authorised prefix, with the credentials that hold below it."""

    prefix: str
    names_place: bool
    """Whether more than a scheme is named, such as a host or the root of the file system."""
    grant: Grant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The consent and the credentials of one reader."""

    consents: PrefixMap[_Consent] = field(default_factory=lambda: PrefixMap({}), repr=False)
    named: Mapping[str, AnyCredential | None] = field(default_factory=dict, repr=False)
    """Credentials by name of a container."""
    default: AnyCredential | None = field(default=None, repr=False)
    given: tuple[VirtualChunkContainer, ...] = field(default=(), repr=False)
    """Containers that the reader passed at open: where they lead is the reader's own word."""
    own_endpoints: PrefixMap[bool] = field(default_factory=lambda: PrefixMap({}), repr=False)
    """Endpoints that the reader talks to already, for the repository itself."""

    @classmethod
    def of(
        cls,
        authorize: Mapping[str, AnyCredential | None] | None,
        given: Iterable[VirtualChunkContainer] = (),
        *,
        own_endpoints: Iterable[str] = (),
    ) -> Self:
        """Read the argument `authorize_virtual_chunk_access`; the module explains its keys.

        Raises:
            InvalidInputError: A key is a prefix that covers nothing.
        """
        keys = dict(authorize or {})
        default = keys.pop(DEFAULT_CREDENTIALS, None)
        prefixes = {key: keys.pop(key) for key in list(keys) if _is_prefix(key)}
        return cls(
            consents=PrefixMap.of(_consents(prefixes)),
            named=keys,
            default=default,
            given=tuple(given),
            own_endpoints=PrefixMap.of({url: True for e in own_endpoints for url in _urls(e)}),
        )

    def grant(self, container: VirtualChunkContainer, location: str) -> Grant:
        """Return how to read an absolute location in a container, if the reader consents to it.

        Raises:
            AccessError: The reader does not; the message says which argument would change it.
            InvalidInputError: The location names no object, or not unmistakably.
        """
        consent = self.consents.find_canonical(canonical_location(location))
        if consent is None:
            raise _not_authorised(container, location)
        self._check_local(container, consent, location)
        grant = self._choose(container, consent)
        _check_platform(container, grant, location)
        if presents_secrets(container.store, grant.credentials) and not _is_meant(grant, container):
            self._check_endpoints(container, location)
            _check_host(container, consent, grant, location)
        return grant

    def needs(
        self,
        containers: Iterable[VirtualChunkContainer],
        *,
        own_platform: Platform | None = None,
    ) -> list[CredentialNeed]:
        """Say for each container what a reader must provide; nothing is fetched for it.

        Args:
            containers: Those in force.
            own_platform: That of the repository, whose credentials serve there by default.
        """
        return [self._need(container, own_platform) for container in containers]

    def _check_local(
        self, container: VirtualChunkContainer, consent: _Consent, location: str
    ) -> None:
        """Refuse what leads to this machine or its network, unless the reader itself says so."""
        self._check_endpoints(container, location, only_local=True)
        platform = platform_of(container.store)
        address = split_location(location)
        by_reader = container in self.given
        if platform is Platform.LOCAL_FILE_SYSTEM:
            named = by_reader or (consent.names_place and address.scheme == "file")
        elif platform is Platform.HTTP and is_local_address(address.bucket):
            named = consent.names_place or (by_reader and _names_place(container.url_prefix))
        else:
            named = True
        if not named:
            raise _not_consented(container, address, location)

    def _check_endpoints(
        self, container: VirtualChunkContainer, location: str, *, only_local: bool = False
    ) -> None:
        """Refuse endpoints that only the stored configuration names."""
        for endpoint in () if container in self.given else endpoints_of(container.store):
            if not self._knows(endpoint) and (not only_local or is_local_address(endpoint)):
                raise _unknown_endpoint(container, endpoint, location)

    def _knows(self, endpoint: str) -> bool:
        """Tell whether the reader named an endpoint."""
        for url in _urls(endpoint):
            consent = _find_prefix(self.consents, url)
            if consent is not None and consent.names_place:
                return True
        return any(_find_prefix(self.own_endpoints, url) for url in _urls(endpoint))

    def _choose(self, container: VirtualChunkContainer, consent: _Consent | None) -> Grant:
        """Take the credentials of the container, the longest prefix, the default, in this order."""
        named = None if container.name is None else self.named.get(container.name)
        if named is not None:
            return Grant(CredentialSource.CONTAINER, container.name, named)
        if consent is not None and consent.grant is not None:
            return consent.grant
        if isinstance(self.default, credential_kinds(container.store)):
            return Grant(CredentialSource.DEFAULT, DEFAULT_CREDENTIALS, self.default)
        return Grant(CredentialSource.REPOSITORY)

    def _need(
        self, container: VirtualChunkContainer, own_platform: Platform | None
    ) -> CredentialNeed:
        covering = _find_prefix(self.consents, container.url_prefix)
        whole = PrefixMap.of({container.url_prefix: True})
        parts = {
            c.prefix for _, c in self.consents.entries.values() if _find_prefix(whole, c.prefix)
        }
        grant = self._choose(container, covering)
        store = container.store
        shared = platform_of(store) is own_platform and not endpoints_of(store)
        return CredentialNeed(
            container.name,
            container.url_prefix,
            platform_of(container.store),
            tuple(kind.__name__ for kind in credential_kinds(container.store)),
            is_authorized=covering is not None,
            authorized_parts=() if covering is not None else tuple(parts),
            is_supplied=grant.credentials is not None or shared or not needs_credentials(store),
            source=grant.source,
            remedy=None if covering is not None or parts else _argument(_authorising(container)),
        )


def _is_prefix(key: str) -> bool:
    # by its spelling alone: a repository must not be able to turn a name into a consent
    return "/" in key or key.lower() in KNOWN_SCHEMES or key.lower() in SCHEME_ALIASES


def _consents(prefixes: Mapping[str, AnyCredential | None]) -> dict[str, _Consent]:
    """Return the consents by prefix, each with the credentials that it has or inherits."""
    for prefix in prefixes:
        fault = prefix_fault(prefix)
        if fault is not None:
            raise InvalidInputError(f"{prefix!r} in authorize_virtual_chunk_access {fault}")
    grants = PrefixMap.of(
        {
            prefix: Grant(CredentialSource.PREFIX, prefix, credentials)
            for prefix, credentials in prefixes.items()
            if credentials is not None
        }
    )
    return {
        prefix: _Consent(prefix, _names_place(prefix), _find_prefix(grants, prefix))
        for prefix in prefixes
    }


def _find_prefix[T](values: PrefixMap[T], prefix: str) -> T | None:
    """Return the value of the longest prefix that covers all that another prefix covers."""
    found = [values.find_canonical(f"{key}/") for key in prefix_keys(prefix)]
    return None if any(value is None for value in found) else found[0]


def _names_place(prefix: str) -> bool:
    _, separator, rest = spelled(prefix).partition("://")
    return bool(rest) if separator else "/" in prefix


def _urls(endpoint: str) -> tuple[str, ...]:
    """Return the URLs that an endpoint may stand for."""
    return (endpoint,) if "://" in endpoint else (f"http://{endpoint}", f"https://{endpoint}")


def _is_meant(grant: Grant, container: VirtualChunkContainer) -> bool:
    """Tell whether credentials were given for the container's own prefix, or one below it."""
    if grant.source is not CredentialSource.PREFIX or grant.key is None:
        return False
    return bool(_find_prefix(PrefixMap.of({container.url_prefix: True}), grant.key))


def _check_host(
    container: VirtualChunkContainer, consent: _Consent, grant: Grant, location: str
) -> None:
    """Refuse to send to any web server what was given for a name, or for whatever comes."""
    is_web = platform_of(container.store) is Platform.HTTP
    if is_web and not consent.names_place and grant.source is not CredentialSource.PREFIX:
        address = split_location(location)
        raise _unknown_endpoint(container, f"{address.scheme}://{address.bucket}/", location)


# -- errors: each names the location, the container, and the argument that would help -------------


def _check_platform(container: VirtualChunkContainer, grant: Grant, location: str) -> None:
    if grant.credentials is None or isinstance(
        grant.credentials, credential_kinds(container.store)
    ):
        return
    raise AccessError(
        f"{location} is in {describe(container)} on {platform_of(container.store)}, but the "
        f"credentials for {grant.key!r} in authorize_virtual_chunk_access are of the kind "
        f"{type(grant.credentials).__name__}; give some that fit, or None",
        kind=ErrorKind.INVALID_CREDENTIALS,
    )


def _not_authorised(container: VirtualChunkContainer, location: str) -> AccessError:
    prefix = _authorising(container, split_location(location))
    return AccessError(
        f"{location} is in {describe(container)}, which the reader has not authorised; open the "
        f"repository with {_argument(prefix)}, or with credentials in place of None"
    )


def _not_consented(
    container: VirtualChunkContainer, address: ObjectAddress, location: str
) -> AccessError:
    is_files = platform_of(container.store) is Platform.LOCAL_FILE_SYSTEM
    remedy = "the container itself in config"
    if address.scheme == "file" or not is_files:
        remedy = f"{_argument(_authorising(container, address))}, or with {remedy}"
    return AccessError(
        f"{location} is in {describe(container)}, which leads to "
        f"{'local files' if is_files else 'a local address'}; this needs a consent of its own: "
        f"open the repository with {remedy}"
    )


def _unknown_endpoint(
    container: VirtualChunkContainer, endpoint: str, location: str
) -> AccessError:
    return AccessError(
        f"the stored configuration sends the requests for {location}, in {describe(container)}, to "
        f"{endpoint}, which the reader has not named; if that is right, open the repository with "
        f"{_argument(_urls(endpoint)[0])} beside the other keys, or with the container itself in "
        "config"
    )


def describe_place(containers: ContainerSet, location: str) -> str:
    """Return the location in words, with its container if there is one, for messages."""
    try:
        container = containers.resolve(location).container
    except (AccessError, InvalidInputError):
        return location
    return f"{location} (in {describe(container)})"


def describe(container: VirtualChunkContainer) -> str:
    """Return the container in words, for messages."""
    name = f"{container.name!r} " if container.name else ""
    return f"the container {name}with prefix {container.url_prefix!r}"


def _argument(prefix: str) -> str:
    return f"authorize_virtual_chunk_access={{{prefix!r}: None}}"


def _authorising(container: VirtualChunkContainer, address: ObjectAddress | None = None) -> str:
    """Return a prefix that authorises a container, or the part of it that holds an object."""
    prefix = container.url_prefix
    if _names_place(prefix):
        return prefix
    is_local = address is not None and is_local_address(address.bucket)
    if address is not None and address.scheme == "file":
        return f"file:///{address.key.rpartition('/')[0]}/"
    if address is not None and is_local and platform_of(container.store) is Platform.HTTP:
        return f"{address.scheme}://{address.bucket}/"
    if _is_prefix(prefix):
        return prefix
    return f"{prefix}://" if address is None or address.scheme else f"{prefix}/"
