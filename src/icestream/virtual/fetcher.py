"""One range of one foreign object, checked to be what its reference was made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from icestream.credentials.expiry import have_ended
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
from icestream.model.platforms import Platform
from icestream.storage.protocol import ByteRange
from icestream.virtual.access import describe
from icestream.virtual.resolver import Target

_MAX_END = 2**63


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


def absolute_range(target: Target, ref: VirtualRef, byte_range: ByteRange | None) -> ByteRange:
    """Return a range of a chunk as a range of the object.

    Raises:
        InvalidInputError: It is not inside the chunk, the chunk is empty, or ends where no object
            can.
    """
    start, end = byte_range or (0, ref.length)
    if not 0 <= start <= end <= ref.length or ref.byte_offset + end >= _MAX_END or not ref.length:
        raise _impossible_range(target, ref, (start, end))
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


def name_chunk(error: IcestreamError, key: str, doing: str = "reading") -> IcestreamError:
    """Return the error with the chunk that was being read or set added to its message."""
    error.message = f"{error.message} (while {doing} the chunk {key})"
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


def _impossible_range(target: Target, ref: VirtualRef, byte_range: ByteRange) -> InvalidInputError:
    if not ref.length:
        return InvalidInputError(
            f"the chunk at byte {ref.byte_offset} of {_place(target)} has length 0, and no chunk "
            "is empty; delete the reference",
            kind=ErrorKind.ZERO_LENGTH_CHUNK,
        )
    start, end = byte_range
    return InvalidInputError(
        f"bytes {start} to {end} are not in the chunk of {ref.length} bytes at byte "
        f"{ref.byte_offset} of {_place(target)}",
        kind=ErrorKind.INVALID_BYTE_RANGE,
    )


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
    kind = error.kind
    if kind in _MAYBE_EXPIRED and have_ended(target.grant.credentials):
        kind = ErrorKind.CREDENTIALS_EXPIRED
    advice = _advice(kind, target)
    return StorageError(
        f"cannot read {_place(target)}: {f'{advice} ({error})' if advice else error}",
        kind=kind,
        retryable=isinstance(error, StorageError) and error.retryable,
    )


_MAYBE_EXPIRED = frozenset({ErrorKind.PERMISSION_DENIED, ErrorKind.INVALID_CREDENTIALS})
"""What stores say that do not tell one reason to turn somebody away from another."""


def _advice(kind: ErrorKind, target: Target) -> str:
    """Return what happened and what would help, if more is known of it here than to the store."""
    if kind is ErrorKind.PERMISSION_DENIED and target.container.platform is _LOCAL:
        return "allow the user who runs this program to read the file"
    advice = _ADVICE.get(kind, "")
    return advice.format(used=_used(target), region=target.container.region or "the default one")


_LOCAL = Platform.LOCAL_FILE_SYSTEM
_ADVICE: Mapping[ErrorKind, str] = {
    ErrorKind.PERMISSION_DENIED: "permission denied with {used}; give others for this prefix in "
    "authorize_virtual_chunk_access",
    ErrorKind.INVALID_CREDENTIALS: "the store does not accept {used}; give others for this prefix "
    "in authorize_virtual_chunk_access",
    ErrorKind.CREDENTIALS_EXPIRED: "a token has expired, of {used}; give a fresh one in "
    "authorize_virtual_chunk_access, or a function that renews it (get_credentials)",
    ErrorKind.WRONG_REGION: "the bucket is in another region than the requests are signed for "
    "({region}); set region in the container",
}


def _used(target: Target) -> str:
    grant = target.grant
    if grant.key is not None:
        return f"the credentials given for {grant.key!r}"
    return "no credentials of its own (those of the repository or the environment)"


def _place(target: Target) -> str:
    return f"{target.location} (in {describe(target.container)})"
