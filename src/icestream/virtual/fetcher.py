"""One range of one foreign object, checked to be what its reference was made from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from icestream.errors import (
    AccessError,
    ErrorKind,
    IcestreamError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    ObjectChangedError,
    StorageError,
)
from icestream.model.chunk_refs import VirtualRef
from icestream.storage.protocol import ByteRange
from icestream.virtual.access import describe
from icestream.virtual.resolver import Target

_MAX_END = 2**63
_EXPIRED = re.compile(r"expired|TokenRefreshRequired|RequestTimeTooSkewed", re.IGNORECASE)
_WRONG_REGION = re.compile(
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint"
    r"|without LOCATION|configured region|wrong region",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Checksum:
    """What is recorded of an object: its ETag, or the last second in which it may have changed."""

    etag: str | None = None
    not_after: datetime | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether there is anything to compare."""
        return self.etag is not None or self.not_after is not None


UNCHECKED = Checksum()


def checksum_of(ref: VirtualRef) -> Checksum:
    """Return what a reference records of its object."""
    if ref.etag is not None:
        return Checksum(etag=ref.etag)
    return _time_checksum(ref.last_modified) if ref.last_modified else UNCHECKED


@lru_cache(maxsize=1024)  # the chunks of an object have the same
def _time_checksum(seconds: int) -> Checksum:
    # whole seconds are recorded: an object that changed within that second passes
    return Checksum(not_after=datetime.fromtimestamp(seconds, UTC).replace(microsecond=999_999))


def absolute_range(ref: VirtualRef, byte_range: ByteRange | None) -> ByteRange:
    """Return a range of a chunk as a range of the object.

    Raises:
        InvalidInputError: It is not inside the chunk, or ends where no object can.
    """
    start, end = byte_range or (0, ref.length)
    if not 0 <= start <= end <= ref.length or ref.byte_offset + end >= _MAX_END:
        raise InvalidInputError(
            f"bytes {start} to {end} are not in the chunk of {ref.length} bytes at byte "
            f"{ref.byte_offset} of {ref.location}",
            kind=ErrorKind.INVALID_BYTE_RANGE,
        )
    return ref.byte_offset + start, ref.byte_offset + end


def fetch(target: Target, byte_range: ByteRange, checksum: Checksum) -> bytes:
    """Return a range of an object.

    Raises:
        ObjectChangedError: The object is not the one that was recorded.
        StorageError: The object is gone, too short, or not readable.
    """
    try:
        if not checksum.is_recorded:
            data = target.storage.get(target.key, byte_range)
        else:
            data = target.storage.get_if_unchanged(
                target.key, byte_range, etag=checksum.etag, not_after=checksum.not_after
            )
    except IcestreamError as error:
        raise _explained(error, target, byte_range) from error
    return _whole(data, target, byte_range)


async def fetch_async(target: Target, byte_range: ByteRange, checksum: Checksum) -> bytes:
    """Await a range of an object; see `fetch`."""
    try:
        if not checksum.is_recorded:
            data = await target.storage.get_async(target.key, byte_range)
        else:
            data = await target.storage.get_if_unchanged_async(
                target.key, byte_range, etag=checksum.etag, not_after=checksum.not_after
            )
    except IcestreamError as error:
        raise _explained(error, target, byte_range) from error
    return _whole(data, target, byte_range)


def name_chunk(error: IcestreamError, key: str) -> IcestreamError:
    """Return the error with the chunk that was being read added to its message."""
    error.message = f"{error.message} (while reading the chunk {key})"
    error.args = (error.message,)
    return error


def _whole(data: bytes, target: Target, byte_range: ByteRange) -> bytes:
    start, end = byte_range
    if len(data) != end - start:
        raise IntegrityError(
            f"{_place(target)} gave {len(data)} bytes where {end - start} were asked for",
            kind=ErrorKind.INVALID_OBJECT_SIZE,
        )
    return data


# -- errors: each names the location and the container ---------------------------------------------


def _explained(error: IcestreamError, target: Target, byte_range: ByteRange) -> IcestreamError:
    """Return the error to raise, in the words of somebody who reads a chunk."""
    place = _place(target)
    match error:
        case ObjectChangedError():
            return ObjectChangedError(
                f"{place} was changed after references to it were made: recorded was "
                f"{error.recorded}, found {error.found or 'something else'}; make the references "
                "anew, restore the object, or open the repository without checks",
                location=target.location,
                recorded=error.recorded,
                found=error.found,
            )
        case NotFoundError():
            # not a KeyError: callers would take a lost object for a chunk that was never written
            return StorageError(
                f"{place} is gone; restore it, or delete the references to it",
                kind=ErrorKind.OBJECT_NOT_FOUND,
            )
        case StorageError() if error.kind is ErrorKind.INVALID_OBJECT_SIZE:
            return StorageError(
                f"{place} ends before byte {byte_range[1]}, where the chunk should end; it was cut "
                "or replaced, or the reference is wrong",
                kind=error.kind,
            )
        case StorageError() | AccessError():
            return _refused(error, target)
        case _:
            return type(error)(f"cannot read {place}: {error}", kind=error.kind)


def _refused(error: StorageError | AccessError, target: Target) -> IcestreamError:
    text = str(error)
    retryable = isinstance(error, StorageError) and error.retryable
    kind = error.kind
    if _WRONG_REGION.search(text):
        kind = ErrorKind.STORAGE_CONFIG
    elif _EXPIRED.search(text):
        kind = ErrorKind.INVALID_CREDENTIALS
    advice = _ADVICE.get(kind)
    reason = f"{advice.format(used=_used(target))} ({text})" if advice else text
    return StorageError(f"cannot read {_place(target)}: {reason}", kind=kind, retryable=retryable)


_ADVICE: Mapping[ErrorKind, str] = {
    ErrorKind.PERMISSION_DENIED: "permission denied with {used}; give others for this prefix in "
    "authorize_virtual_chunk_access",
    ErrorKind.INVALID_CREDENTIALS: "a token has expired, of {used}; give a fresh one in "
    "authorize_virtual_chunk_access, or a function that renews it (get_credentials)",
    ErrorKind.STORAGE_CONFIG: "the bucket is not where the container says, most likely in another "
    "region; set region in the container",
}


def _used(target: Target) -> str:
    grant = target.grant
    if grant.key is not None:
        return f"the credentials given for {grant.key!r}"
    return "no credentials of its own (those of the repository or the environment)"


def _place(target: Target) -> str:
    return f"{target.location} (in {describe(target.container)})"
