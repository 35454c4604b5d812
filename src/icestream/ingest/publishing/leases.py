"""One run of an archive at a time: a lease on its ingest dataset.

The lease is a courtesy. It spares a second run the work of scanning files for nothing; it does not
keep anything right. A holder whose clock or network stands still may lose it without noticing.
That two runs cannot both publish is the work of the compare-and-swaps in `publish`.

The lease is a small object beside the chain, where neither verification nor garbage collection
looks. It is taken, renewed and given back by conditional writes, so that of two takers one wins.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from icestream.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    StorageError,
)
from icestream.ingest.publishing.processes import ProcessIdentity
from icestream.storage.protocol import Storage, Version

LEASE_KEY = "info/lease"
"""Where the lease lies below the root of a dataset."""

_VERSION = 1
_POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """How long a lease holds, and how long to wait for one."""

    duration_s: float = 60.0
    """Without a sign of life from its holder."""
    wait_s: float = 0.0
    """How long to wait for another holder to finish."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def renewal_s(self) -> float:
        """How often its holder shows that it is alive."""
        return self.duration_s / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What the object says."""

    holder: ProcessIdentity
    token: str
    """Tells leases of one process apart."""
    taken_at: datetime
    expires_at: datetime
    is_released: bool = False

    def is_free(self, now: datetime) -> bool:
        """Tell whether anybody may take the lease."""
        return self.is_released or self.expires_at <= now or self.holder.is_gone


class Lease:
    """A lease that is held: renewed by a thread until it is given back.

    >>> from icestream.storage import in_memory_storage
    >>> storage = in_memory_storage()
    >>> with Lease.take(storage, "sst") as lease:
    ...     lease.check()
    >>> find_lease(storage).is_released
    True
    """

    def __init__(
        self, storage: Storage, record: LeaseRecord, version: Version, terms: LeaseTerms
    ) -> None:
        self._storage = storage
        self._record = record
        self._version = version
        self._terms = terms
        self._lost: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="icestream-lease", daemon=True)

    @classmethod
    def take(cls, storage: Storage, archive: str, terms: LeaseTerms | None = None) -> Self:
        """Take the lease of an archive, waiting for it as the terms say.

        Args:
            storage: Of the ingest dataset.
            archive: Its name, for messages.
            terms: How long it holds, and how long to wait.

        Raises:
            ConflictError: Another run holds it.
        """
        terms = terms or LeaseTerms()
        deadline = time.monotonic() + terms.wait_s
        while True:
            taken = _try_to_take(storage, terms)
            if isinstance(taken, tuple):
                lease = cls(storage, *taken, terms)
                lease._thread.start()
                return lease
            if time.monotonic() >= deadline:
                raise _held(archive, taken)
            time.sleep(min(_POLL_S, terms.wait_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @property
    def record(self) -> LeaseRecord:
        """What was last written."""
        return self._record

    def check(self) -> None:
        """Make sure, as far as is known, that the lease is still held.

        Raises:
            ConflictError: Another run took it.
        """
        if self._lost is not None:
            raise ConflictError(self._lost, kind=ErrorKind.PRECONDITION_FAILED)

    def release(self) -> None:
        """Give the lease back; one that was lost, or cannot be given back, expires by itself."""
        self._ended.set()
        self._thread.join()
        if self._lost is None:
            self._write(replace(self._record, is_released=True))

    def _renew(self) -> None:
        while self._lost is None and not self._ended.wait(self._terms.renewal_s):
            expires_at = self._terms.clock() + timedelta(seconds=self._terms.duration_s)
            self._write(replace(self._record, expires_at=expires_at))

    def _write(self, record: LeaseRecord) -> None:
        try:
            self._version = self._storage.put_if_version(LEASE_KEY, _encode(record), self._version)
        except ConflictError:
            self._lost = "another run took the lease, because this one did not renew it in time"
        except (StorageError, CommitUnknownError) as error:
            if self._terms.clock() >= self._record.expires_at:
                self._lost = f"the lease ran out, because it could not be renewed: {error}"
            else:
                self._reread()
        else:
            self._record = record

    def _reread(self) -> None:
        """Find out the version of an object whose last write was not answered."""
        try:
            found = _load(self._storage)
        except StorageError:
            return  # the next renewal will tell
        if found is not None and found[0] is not None and found[0].token == self._record.token:
            self._record, self._version = found[0], found[1]


def find_lease(storage: Storage) -> LeaseRecord | None:
    """Return who holds or held the lease on a dataset; None if nobody ever did."""
    found = _load(storage)
    return None if found is None else found[0]


def _try_to_take(
    storage: Storage, terms: LeaseTerms
) -> tuple[LeaseRecord, Version] | LeaseRecord | None:
    """Return the lease if it could be taken, else who holds it, None if that is not known."""
    now = terms.clock()
    record = LeaseRecord(
        holder=ProcessIdentity.current(),
        token=secrets.token_hex(8),
        taken_at=now,
        expires_at=now + timedelta(seconds=terms.duration_s),
    )
    found = _load(storage)
    try:
        if found is None:
            return record, storage.put_if_absent(LEASE_KEY, _encode(record))
        known, version = found
        if known is None or known.is_free(now):
            return record, storage.put_if_version(LEASE_KEY, _encode(record), version)
    except (AlreadyExistsError, ConflictError):
        return find_lease(storage)
    return known


def _load(storage: Storage) -> tuple[LeaseRecord | None, Version] | None:
    """Return the object; its record is None if nobody can read it."""
    try:
        data, version = storage.get_versioned(LEASE_KEY)
    except NotFoundError:
        return None
    return _decode(data), version


def _encode(record: LeaseRecord) -> bytes:
    document = asdict(record) | {
        "version": _VERSION,
        "taken_at": record.taken_at.isoformat(),
        "expires_at": record.expires_at.isoformat(),
    }
    return json.dumps(document, indent=1).encode()


def _decode(data: bytes) -> LeaseRecord | None:
    try:
        document = json.loads(data)
        return LeaseRecord(
            holder=ProcessIdentity(**document["holder"]),
            token=document["token"],
            taken_at=datetime.fromisoformat(document["taken_at"]),
            expires_at=datetime.fromisoformat(document["expires_at"]),
            is_released=document["is_released"],
        )
    except (ValueError, TypeError, KeyError):
        return None


def _held(archive: str, record: LeaseRecord | None) -> ConflictError:
    told = "another run took it at the same moment"
    if record is not None:
        holder = record.holder
        told = (
            f"process {holder.pid} on {holder.host} is at it since"
            f" {record.taken_at:%Y-%m-%d %H:%M:%S} UTC, and would be taken for dead at"
            f" {record.expires_at:%H:%M:%S}"
        )
    return ConflictError(
        f"another run of the archive {archive} is going on: {told}; wait for it, or run later",
        kind=ErrorKind.PRECONDITION_FAILED,
    )
