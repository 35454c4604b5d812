"""When credentials end, as far as they say so themselves."""

import base64
import binascii
import json
from datetime import UTC, datetime
from urllib.parse import parse_qs

from icestream.credentials.azure import AzureStaticCredentials
from icestream.credentials.http import HttpHeaders
from icestream.credentials.refreshable import Refreshable, aware

_PARTS_OF_A_TOKEN = 3


def have_ended(credentials: object) -> bool:
    """Tell whether credentials say that their time is over.

    Stores often answer who comes too late as they answer who was never let in.
    """
    end = _end_of(_innermost(credentials))
    return end is not None and aware(end) <= datetime.now(UTC)


def _innermost(credentials: object) -> object:
    """Return what is presented, without the kinds and platforms around it."""
    if isinstance(credentials, Refreshable):
        return credentials.last
    inner = getattr(credentials, "credentials", None)
    return credentials if inner is None else _innermost(inner)


def _end_of(presented: object) -> datetime | None:
    recorded: datetime | None = getattr(presented, "expires_after", None)
    if recorded is not None:
        return recorded
    if isinstance(presented, AzureStaticCredentials.SasToken):
        return _signed_end(presented.token)
    if isinstance(presented, HttpHeaders):
        ends = map(_claimed_end, presented.headers.values())
        return min((end for end in ends if end is not None), default=None)
    token = getattr(presented, "token", getattr(presented, "bearer", None))
    return _claimed_end(token) if isinstance(token, str) else None


def _signed_end(signature: str) -> datetime | None:
    """Return the end of a shared access signature of Azure, its parameter `se`."""
    for text in parse_qs(signature.removeprefix("?")).get("se", ()):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return None
    return None


def _claimed_end(token: str) -> datetime | None:
    """Return the claim `exp` of a JSON Web Token (RFC 7519), None for any other text."""
    parts = token.rpartition(" ")[2].split(".")
    if len(parts) != _PARTS_OF_A_TOKEN:
        return None
    padded = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims = json.loads(base64.urlsafe_b64decode(padded))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
