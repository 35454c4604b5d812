"""Where the stores of containers lead, and whether that is the reader's own machine. Pure.

Only what the text itself says is judged: a name that a name server resolves to a loopback address
is not recognised.
"""

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote

from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from icestream.model.platforms import s3_options

_SCHEME = re.compile(r"https?:[/\\]*|[a-z][a-z0-9+.-]*:[/\\]+", re.IGNORECASE)
_PART_OF_A_HOST = re.compile(r"[A-Za-z0-9-]+")
"""What a region or account may be: clients paste them into host names unseen."""
_END_OF_HOST = re.compile(r"[/\\?#]")
_LOCAL_NAMES = frozenset(
    {
        "ip6-localhost",
        "ip6-loopback",
        "localhost",
        "localhost.localdomain",
        "metadata.google.internal",  # the name of a link-local address on that platform
    }
)
_NAT64 = 0x0064_FF9B << 96
_EMULATOR = "http://127.0.0.1:10000"


def endpoints_of(store: AnyObjectStoreConfig) -> tuple[str, ...]:
    """Return the addresses that a store names in place of its platform's own."""
    options = s3_options(store)
    if options is not None:
        return tuple(_s3_endpoints(options))
    match store:
        case ObjectStoreConfig.Gcs() | ObjectStoreConfig.Azure() | ObjectStoreConfig.Http():
            named = (_named_endpoint(*item) for item in (store.opts or {}).items())
            return tuple(endpoint for endpoint in named if endpoint is not None)
        case _:
            return ()


def _s3_endpoints(options: S3Options) -> Iterator[str]:
    if options.endpoint_url:
        yield options.endpoint_url
    if options.region and not _PART_OF_A_HOST.fullmatch(options.region):
        yield f"https://s3.{options.region}.amazonaws.com"


def _named_endpoint(option: str, value: str) -> str | None:
    """Return the address that an option of the client names."""
    option = option.lower()
    if "emulator" in option:
        return None if value.lower() in {"", "0", "false", "no", "off"} else _EMULATOR
    if "://" in value or any(word in option for word in ("endpoint", "url", "host")):
        return value
    is_account = option.endswith(("account", "account_name")) and "service" not in option
    if is_account and not _PART_OF_A_HOST.fullmatch(value):
        return f"https://{value}.blob.core.windows.net"
    return None


def is_local_address(address: str) -> bool:
    """Tell whether a URL, or a host with or without port, is loopback or link-local."""
    return _is_local_host(host_of(address))


def host_of(address: str) -> str:
    """Return the host that a client would connect to; clients forgive odd spellings."""
    text = re.sub(r"[\t\r\n]", "", address).strip()
    scheme = _SCHEME.match(text)
    authority = _END_OF_HOST.split(text[scheme.end() if scheme else 0 :], maxsplit=1)[0]
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    # more than one colon: an IPv6 address without its brackets
    return authority if authority.count(":") > 1 else authority.partition(":")[0]


def _is_local_host(host: str) -> bool:
    try:
        name = unquote(host).rstrip(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        name = unquote(host).rstrip(".").lower()
        if not name.isascii():
            return True  # a client may still make an address of it: ask for consent
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return True
    address = _parse_address(name)
    return address is not None and any(
        part.is_loopback or part.is_link_local or part.is_unspecified for part in _embedded(address)
    )


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    with suppress(ValueError):
        return ip_address(host)
    with suppress(OSError):
        # the forms that C libraries accept: 127.1, 2130706433, 0x7f.0.0.1, 0177.0.0.1
        return IPv4Address(socket.inet_aton(host))
    return None


def _embedded(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """Return the address, and the IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return [address]
    found: list[IPv4Address | IPv6Address] = [address]
    found.extend(inner for inner in (address.ipv4_mapped, address.sixtofour) if inner is not None)
    number = int(address)
    if number >> 32 in {0, _NAT64 >> 32} and number > 1:
        found.append(IPv4Address(number & 0xFFFF_FFFF))
    return found
