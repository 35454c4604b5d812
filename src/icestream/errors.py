"""Every exception of the package, named after what a caller can do about it.

    IcestreamError
    ├── ConflictError               another writer won: rebase, then try again
    │   └── RebaseFailedError       the conflicts need a solver or a person; carries them
    ├── CommitUnknownError          the outcome is unknown: read back, never clean up
    ├── NotFoundError               the thing asked for is absent      (also a KeyError)
    │   ├── NodeNotFoundError
    │   ├── SnapshotNotFoundError
    │   ├── RefNotFoundError
    │   └── RepositoryNotFoundError
    ├── AlreadyExistsError          the thing to create is present
    ├── ReadOnlyError               a write through something that only reads (a ValueError)
    ├── InvalidInputError           the argument is wrong              (also a ValueError)
    │   └── ChainRuleError          a block that the chain does not admit; carries the rule
    ├── SessionStateError           right call, wrong moment
    │   └── DivergedInputError      an input was rewritten below a derivative dataset: reset that
    ├── AccessError                 no container, consent or credential permits this location
    ├── StorageError                the object store failed; `retryable` says if it may pass
    ├── FormatError                 bytes do not follow the specification, or follow a newer one
    ├── IntegrityError              bytes differ from the length or checksum that names them
    │   └── ObjectChangedError      a foreign object is not the one that was recorded
    ├── SourceError                 one input file cannot be ingested: set it aside, go on
    └── InternalError               a bug of this package

Class names and bases follow the icechunk package where it has the same concept. Each instance
carries a stable `kind`, so that no class is needed per failure. Errors cross process borders
(Spark, multiprocessing): one positional message, everything else has a default.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar


class ErrorKind(StrEnum):
    """Stable machine-readable codes; append-only, because callers match on them."""

    # conflicts
    COMMIT_CONFLICT = "commit-conflict"
    BRANCH_UPDATE_CONFLICT = "branch-update-conflict"
    REBASE_FAILED = "rebase-failed"
    CONFIG_UPDATED = "config-updated"
    REPO_INFO_UPDATED = "repo-info-updated"
    UPDATE_ATTEMPTS_EXHAUSTED = "update-attempts-exhausted"
    PRECONDITION_FAILED = "precondition-failed"
    COMMIT_UNKNOWN = "commit-unknown"
    GC_DELETES_FAILING = "gc-deletes-failing"
    # not found
    NODE_NOT_FOUND = "node-not-found"
    ANCESTOR_NODE_NOT_FOUND = "ancestor-node-not-found"
    CHUNK_NOT_FOUND = "chunk-not-found"
    KEY_NOT_FOUND = "key-not-found"
    SNAPSHOT_NOT_FOUND = "snapshot-not-found"
    NO_SNAPSHOT_AT_TIME = "no-snapshot-at-time"
    REF_NOT_FOUND = "ref-not-found"
    BRANCH_NOT_FOUND = "branch-not-found"
    TAG_NOT_FOUND = "tag-not-found"
    REPOSITORY_NOT_FOUND = "repository-not-found"
    MANIFEST_INFO_NOT_FOUND = "manifest-info-not-found"
    # already exists
    NODE_ALREADY_EXISTS = "node-already-exists"
    BRANCH_ALREADY_EXISTS = "branch-already-exists"
    TAG_ALREADY_EXISTS = "tag-already-exists"
    TAG_PREVIOUSLY_DELETED = "tag-previously-deleted"
    MOVE_WONT_OVERWRITE = "move-wont-overwrite"
    OBJECT_ALREADY_EXISTS = "object-already-exists"
    REPOSITORY_ALREADY_EXISTS = "repository-already-exists"
    # read only
    READ_ONLY_SESSION = "read-only-session"
    READ_ONLY_STORE = "read-only-store"
    READ_ONLY_STORAGE = "read-only-storage"
    READ_ONLY_REPOSITORY = "read-only-repository"
    # invalid input
    INVALID_KEY = "invalid-key"
    INVALID_CHUNK_INDEX = "invalid-chunk-index"
    ZERO_LENGTH_CHUNK = "zero-length-chunk"
    INVALID_MANIFEST_SPLIT_INDEX = "invalid-manifest-split-index"
    INVALID_REF_TYPE = "invalid-ref-type"
    INVALID_REF_NAME = "invalid-ref-name"
    INVALID_SNAPSHOT_ID = "invalid-snapshot-id"
    INVALID_PATH = "invalid-path"
    BAD_KEY_PREFIX = "bad-key-prefix"
    BAD_METADATA = "bad-metadata"
    BAD_PREFIX = "bad-prefix"
    NOT_AN_ARRAY = "not-an-array"
    NOT_A_GROUP = "not-a-group"
    INVALID_BYTE_RANGE = "invalid-byte-range"
    INVALID_COMMIT_CONFIGURATION = "invalid-commit-configuration"
    INVALID_ARRAY_METADATA = "invalid-array-metadata"
    INVALID_FEATURE_FLAG = "invalid-feature-flag"
    INVALID_VIRTUAL_REF = "invalid-virtual-ref"
    INVALID_CREDENTIALS = "invalid-credentials"
    INVALID_CONFIG = "invalid-config"
    INVALID_ARGUMENT = "invalid-argument"
    NO_CONTAINER_FOR_VIRTUAL_CHUNK = "no-container-for-virtual-chunk"
    UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER = "unauthorized-virtual-chunk-container"
    CHAIN_RULE = "chain-rule"
    EMPTY_PREFIX_CREATION = "empty-prefix-creation"
    PARENT_DIRECTORY_NOT_CLEAN = "parent-directory-not-clean"
    BAD_SNAPSHOT_CHAIN_FOR_DIFF = "bad-snapshot-chain-for-diff"
    # session and repository state
    COMMIT_NOT_ALLOWED = "commit-not-allowed"
    MERGE_NOT_ALLOWED = "merge-not-allowed"
    CANNOT_FORK_READ_ONLY_SESSION = "cannot-fork-read-only-session"
    REARRANGE_SESSION_ONLY = "rearrange-session-only"
    NON_REARRANGE_SESSION = "non-rearrange-session"
    MOVE_INTO_SELF_OR_DESCENDANT = "move-into-self-or-descendant"
    MOVE_DESTINATION_PARENT_MISSING = "move-destination-parent-missing"
    MOVE_DESTINATION_PARENT_NOT_GROUP = "move-destination-parent-not-group"
    NO_CHANGES_TO_COMMIT = "no-changes-to-commit"
    NO_AMEND_FOR_INITIAL_COMMIT = "no-amend-for-initial-commit"
    NOT_ON_BRANCH = "not-on-branch"
    NO_SNAPSHOT = "no-snapshot"
    CANNOT_DELETE_MAIN = "cannot-delete-main"
    UNCOMMITTED_CHANGES = "uncommitted-changes"
    MERGE_FAILED = "merge-failed"
    NOT_ALLOWED = "not-allowed"
    UNIMPLEMENTED = "unimplemented"
    INPUT_DIVERGED = "input-diverged"
    REBASE_TX_LOG_PRUNED = "rebase-tx-log-pruned"
    FEATURE_FLAG_DISABLED = "feature-flag-disabled"
    TAG_ERROR = "tag-error"
    INVALID_REPOSITORY_MIGRATION = "invalid-repository-migration"
    # storage and environment
    OBJECT_NOT_FOUND = "object-not-found"
    OBJECT_STORE = "object-store"
    IO = "io"
    STORAGE_CONFIG = "storage-config"
    PRECONDITIONS_IGNORED = "preconditions-ignored"
    PERMISSION_DENIED = "permission-denied"
    CREDENTIALS_EXPIRED = "credentials-expired"
    WRONG_REGION = "wrong-region"
    CANNOT_PARSE_URL = "cannot-parse-url"
    BAD_REDIRECT = "bad-redirect"
    SEMAPHORE_ACQUIRE = "semaphore-acquire"
    THROTTLED = "throttled"
    STORAGE_OTHER = "storage-other"
    VIRTUAL_CHUNK_FETCH = "virtual-chunk-fetch"
    VIRTUAL_CHUNK_MODIFIED = "virtual-chunk-modified"
    INVALID_OBJECT_SIZE = "invalid-object-size"
    # format
    SERIALIZATION = "serialization"
    DESERIALIZATION = "deserialization"
    CONFIG_DESERIALIZATION = "config-deserialization"
    INVALID_FILE_FORMAT = "invalid-file-format"
    UNSUPPORTED_SPEC_VERSION = "unsupported-spec-version"
    UNSUPPORTED_OPERATION_FOR_VERSION = "unsupported-operation-for-version"
    SNAPSHOT_TIMESTAMP = "snapshot-timestamp"
    DUPLICATE_SNAPSHOT_ID = "duplicate-snapshot-id"
    INTEGRITY = "integrity"
    SOURCE = "source"
    # internal
    CONCURRENCY = "concurrency"
    FLUSH = "flush"
    PARTIAL_VALUES_PANIC = "partial-values-panic"
    CONFLICTING_PATH_NOT_FOUND = "conflicting-path-not-found"
    INCONSISTENT_MANIFESTS = "inconsistent-manifests"
    POISON_LOCK = "poison-lock"
    PICKLE = "pickle"
    UNKNOWN = "unknown"


class IcestreamError(Exception):
    """Base of every error that this package raises on purpose."""

    default_kind: ClassVar[ErrorKind] = ErrorKind.UNKNOWN

    def __init__(self, message: str = "", *, kind: ErrorKind | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or type(self).default_kind

    def __str__(self) -> str:
        # KeyError, a base of NotFoundError, would show the repr of the message
        return self.message


class ConflictError(IcestreamError):
    """Another writer changed the same thing first: rebase or reread, then try again."""

    default_kind = ErrorKind.COMMIT_CONFLICT

    def __init__(
        self,
        message: str = "",
        *,
        kind: ErrorKind | None = None,
        expected_parent: str | None = None,
        actual_parent: str | None = None,
    ) -> None:
        super().__init__(message, kind=kind)
        self.expected_parent = expected_parent
        self.actual_parent = actual_parent


class RebaseFailedError(ConflictError):
    """A rebase met conflicts that its solver does not resolve; `conflicts` lists them."""

    default_kind = ErrorKind.REBASE_FAILED

    def __init__(
        self,
        message: str = "",
        *,
        kind: ErrorKind | None = None,
        snapshot: str | None = None,
        conflicts: Sequence[Any] = (),
    ) -> None:
        super().__init__(message, kind=kind)
        self.snapshot = snapshot
        self.conflicts = list(conflicts)


class CommitUnknownError(IcestreamError):
    """It cannot be known whether the write happened: read back before doing anything else."""

    default_kind = ErrorKind.COMMIT_UNKNOWN


class NotFoundError(IcestreamError, KeyError):
    """The thing asked for does not exist."""

    default_kind = ErrorKind.KEY_NOT_FOUND


class NodeNotFoundError(NotFoundError):
    """There is no group, array or chunk at this path."""

    default_kind = ErrorKind.NODE_NOT_FOUND


class SnapshotNotFoundError(NotFoundError):
    """There is no snapshot with this id, or at this time."""

    default_kind = ErrorKind.SNAPSHOT_NOT_FOUND


class RefNotFoundError(NotFoundError):
    """There is no branch or tag with this name."""

    default_kind = ErrorKind.REF_NOT_FOUND


class RepositoryNotFoundError(NotFoundError):
    """There is no repository at this storage location."""

    default_kind = ErrorKind.REPOSITORY_NOT_FOUND


class AlreadyExistsError(IcestreamError):
    """The thing to create is there already."""

    default_kind = ErrorKind.OBJECT_ALREADY_EXISTS


class ReadOnlyError(IcestreamError, ValueError):
    """A write was tried through a session, store, storage or repository that only reads.

    Zarr raises ValueError for it, and programs written for zarr catch that.
    """

    default_kind = ErrorKind.READ_ONLY_SESSION


class InvalidInputError(IcestreamError, ValueError):
    """An argument, key, index or metadata value is invalid."""

    default_kind = ErrorKind.INVALID_ARGUMENT


class ChainRuleError(InvalidInputError):
    """A metadata block breaks a rule of its chain; `rule` names it, `block` the block if known."""

    default_kind = ErrorKind.CHAIN_RULE

    def __init__(
        self,
        message: str = "",
        *,
        kind: ErrorKind | None = None,
        rule: str = "",
        block: str | None = None,
    ) -> None:
        super().__init__(message, kind=kind)
        self.rule = rule
        self.block = block


class SessionStateError(IcestreamError):
    """The call is right, but not in this state of the session or repository."""

    default_kind = ErrorKind.NOT_ALLOWED


class DivergedInputError(SessionStateError):
    """A block that a derivative dataset consumed is not on its input's chain: reset, start over."""

    default_kind = ErrorKind.INPUT_DIVERGED

    def __init__(
        self,
        message: str = "",
        *,
        kind: ErrorKind | None = None,
        dataset_id: str = "",
        block: str = "",
    ) -> None:
        super().__init__(message, kind=kind)
        self.dataset_id = dataset_id
        self.block = block


class AccessError(IcestreamError):
    """No container, consent or credential permits reading this location."""

    default_kind = ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER


class StorageError(IcestreamError):
    """The object store failed or is misconfigured; `retryable` says if trying again may help."""

    default_kind = ErrorKind.OBJECT_STORE

    def __init__(
        self, message: str = "", *, kind: ErrorKind | None = None, retryable: bool = False
    ) -> None:
        super().__init__(message, kind=kind)
        self.retryable = retryable


class FormatError(IcestreamError):
    """Stored bytes do not follow the specification, or follow one that is newer than this code."""

    default_kind = ErrorKind.INVALID_FILE_FORMAT


class IntegrityError(IcestreamError):
    """Stored bytes differ from the length or checksum that was recorded for them.

    `rule` names what an object of a ledger breaks; it is empty elsewhere.
    """

    default_kind = ErrorKind.INTEGRITY

    def __init__(self, message: str = "", *, kind: ErrorKind | None = None, rule: str = "") -> None:
        super().__init__(message, kind=kind)
        self.rule = rule


class ObjectChangedError(IntegrityError):
    """A foreign object was changed since its ETag or time was recorded; make its references anew.

    `recorded` and `found` are both ETags or both times; `found` is None where it is not known.
    """

    default_kind = ErrorKind.VIRTUAL_CHUNK_MODIFIED

    def __init__(
        self,
        message: str = "",
        *,
        kind: ErrorKind | None = None,
        location: str = "",
        recorded: str | datetime | None = None,
        found: str | datetime | None = None,
    ) -> None:
        super().__init__(message, kind=kind)
        self.location = location
        self.recorded = recorded
        self.found = found


class SourceError(IcestreamError):
    """One input file cannot be ingested; the others can."""

    default_kind = ErrorKind.SOURCE


class InternalError(IcestreamError):
    """Something happened that must not happen: a bug of this package."""
