"""Reads that must find an object unchanged: what is asked of a store, and what is compared here.

Stores are asked by If-Match and If-Unmodified-Since (RFC 9110, section 13), so that a changed
object costs no transfer. Some ignore the question, so the ETag and time of the answer, which come
with it at no cost, are compared as well.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Self

from icestream.errors import ErrorKind, InvalidInputError, ObjectChangedError, StorageError
from icestream.storage.protocol import ByteRange

_HEADER_SAFE = re.compile(r"[\x21\x23-\x7e]*")
"""What an ETag may consist of; anything else is not put into a header."""


def plain_etag(etag: str) -> str:
    """Return the ETag without the quotes around it, about which stores disagree.

    A weak one (`W/"..."`) stays as it is: its quotes are inside.
    """
    return etag if etag.startswith("W/") else etag.strip('"')


@dataclass(frozen=True, slots=True)
class ReadCondition:
    """The ETag that an object must have, or else the second after which it must not have changed.

    As in HTTP, the ETag decides where both are given.
    """

    etag: str | None = None
    not_after: datetime | None = None

    @classmethod
    @lru_cache(maxsize=1024)  # the chunks of an object are read on the same condition
    def of(cls, etag: str | None, not_after: datetime | None) -> Self | None:
        """Return the condition, or None if there is none."""
        if etag is not None:
            return cls(etag=plain_etag(etag))
        if not_after is None:
            return None
        if not_after.tzinfo is None:
            raise InvalidInputError(f"the time {not_after} has no time zone; add one, such as UTC")
        return cls(not_after=not_after.replace(microsecond=0))

    @property
    def recorded(self) -> str | datetime | None:
        """What the object is compared with."""
        return self.not_after if self.etag is None else self.etag

    def get_options(self, byte_range: ByteRange | None) -> dict[str, object]:
        """Return the question to a remote store, in the words of obstore."""
        options: dict[str, object] = {}
        if byte_range is not None:
            options["range"] = byte_range
        if self.etag is None:
            options["if_unmodified_since"] = self.not_after
        elif _HEADER_SAFE.fullmatch(self.etag):
            # a weak ETag has quotes inside and is not asked for: by the RFC it never matches
            options["if_match"] = f'"{self.etag}"'
        return options

    def require(self, path: str, etag: str | None, modified: datetime | None) -> None:
        """Compare with what was found.

        Raises:
            ObjectChangedError: It is another state of the object.
            StorageError: The store does not say (kind PRECONDITIONS_IGNORED).
        """
        found = self.compared(etag, modified)
        if found is None:
            raise _silent_store(path, "time of change" if self.etag is None else "ETag")
        if not self.holds(found):
            raise self.changed(path, found)

    def compared(self, etag: str | None, modified: datetime | None) -> str | datetime | None:
        """Return the one of both that this condition is about."""
        return modified if self.etag is None else etag

    def holds(self, found: str | datetime) -> bool:
        """Tell whether this is the state that was recorded."""
        if isinstance(found, str):
            return found == self.etag
        # whole seconds were recorded: what changed within that second passes, as over HTTP
        return self.not_after is not None and found.replace(microsecond=0) <= self.not_after

    def holds_at(self, seconds: int) -> bool:
        """Tell whether an object that changed in this second since the epoch is as recorded."""
        return self.not_after is not None and seconds <= self.not_after.timestamp()

    def changed(self, path: str, found: str | datetime | None) -> ObjectChangedError:
        """Return the error for an object that is in another state."""
        if self.etag is None:
            reason = f"it was to be unchanged since {self.not_after}"
            then = "" if found is None else f", and was modified at {found}"
        else:
            reason = f"its ETag was {self.etag!r}"
            then = "" if found is None else f" and is {found!r}"
        return ObjectChangedError(
            f"{path} was changed after references to it were made: {reason}{then}; "
            "make them anew, or restore the object",
            location=path,
            recorded=self.recorded,
            found=found,
        )


def _silent_store(path: str, what: str) -> StorageError:
    return StorageError(
        f"cannot tell whether {path} was changed: its store names no {what}; "
        "record something else for it, or read without checks",
        kind=ErrorKind.PRECONDITIONS_IGNORED,
    )
