"""The options of the data source `icestream`, as texts and as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace
from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery, parse_names
from icestream.spark.cells.plans import ROWS_PER_BLOCK
from icestream.spark.cells.selections import Selection, parse_selection
from icestream.spark.metadata_tables import EVENTS
from icestream.spark.pinned import VersionName
from icestream.storage.protocol import Storage
from icestream.storage.urls import StorageUrl

PLACE_OPTIONS = ("path", "region", "endpoint-url", "anonymous", "allow-http", "authorize")
_VERSION = ("branch", "tag", "snapshot", "as-of")
_CELLS = ("array", "group", "variables", "select", "decode", "rows-per-partition")
_KNOWN = (*PLACE_OPTIONS, *_VERSION, *_CELLS, "table", "dataset")
_SECRETS = ("secret", "token", "password", "key", "credential")
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader asked for."""

    place: StorageUrl
    version: VersionName
    query: CellQuery
    selection: Selection | None = None
    table: str | None = None
    dataset: str | None = None
    """By its name in the workspace at the place; None if the place is the dataset."""
    authorize: tuple[str, ...] = ()
    """Prefixes that virtual chunks may be read from."""
    rows_per_partition: int = ROWS_PER_BLOCK

    def storage(self) -> Storage:
        """Return the storage at the path."""
        return self.place.storage()

    def ledger_storage(self) -> Storage:
        """Return the storage of the ledger dataset.

        Raises:
            NotFoundError: There is none.
        """
        if self.dataset is None:
            return Dataset.open(self.storage()).storage
        return Workspace(self.storage()).open(self.dataset).storage

    def open(self) -> Repository:
        """Open the repository at the path."""
        authorized: dict[str, Any] | None = dict.fromkeys(self.authorize) or None
        return Repository.open(self.storage(), authorize_virtual_chunk_access=authorized)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return options as values.

    Raises:
        InvalidInputError: One is not known, has no meaning here, or excludes another.
    """
    given = {name.lower(): text for name, text in options.items()}
    _check_names(given)
    return SourceOptions(
        place_of(given),
        VersionName(
            branch=given.get("branch"),
            tag=given.get("tag"),
            snapshot=given.get("snapshot"),
            as_of=_moment(given["as-of"]) if "as-of" in given else None,
        ),
        CellQuery(
            array=given.get("array"),
            group=given.get("group", "/"),
            variables=parse_names(given["variables"]) if "variables" in given else None,
            decode=truth_of(given, "decode", default=True),
        ),
        parse_selection(given["select"]) if "select" in given else None,
        given.get("table"),
        given.get("dataset"),
        parse_names(given.get("authorize", "")),
        _count(given, "rows-per-partition", ROWS_PER_BLOCK),
    )


def check_known(given: Mapping[str, str], known: Sequence[str], instead: str) -> None:
    """Refuse options that are not known, and the lack of a path.

    Args:
        given: By their names in lower case.
        known: The names that mean something.
        instead: What takes a repository that was opened with credentials.

    Raises:
        InvalidInputError: There is such an option, or no path.
    """
    for name in given:
        if name in known:
            continue
        if any(word in name for word in _SECRETS):
            raise _refused(
                f"{name!r} looks like a credential, which is never an option, because Spark shows "
                "options: tasks take credentials from their environment; to pass others, open the "
                f"repository with them and use {instead}"
            )
        raise _refused(f"the option {name!r} is not known; there are {', '.join(known)}")
    if "path" not in given:
        raise _refused("there is no path; give the address of a repository to load or save")


def _check_names(given: Mapping[str, str]) -> None:
    check_known(given, _KNOWN, "icestream.spark.read_array(spark, repo)")
    if "table" in given and (odd := [name for name in _CELLS if name in given]):
        raise _refused(f"the option {odd[0]!r} means nothing for a table; leave one of them out")
    if given.get("table") == EVENTS and (odd := [name for name in _VERSION if name in given]):
        raise _refused(f"the option {odd[0]!r} means nothing for a ledger dataset; leave it out")
    if "dataset" in given and given.get("table") != EVENTS:
        raise _refused(f"dataset names a dataset of a workspace: it goes with the table {EVENTS}")
    if "array" in given and (odd := [name for name in ("group", "variables") if name in given]):
        raise _refused(f"array names one array, so {odd[0]!r} means nothing; leave one of them out")


def place_of(given: Mapping[str, str]) -> StorageUrl:
    """Return the place that options name."""
    return StorageUrl(
        address=_address(given["path"]),
        region=given.get("region"),
        endpoint_url=given.get("endpoint-url"),
        anonymous=truth_of(given, "anonymous", default=False),
        allow_http=truth_of(given, "allow-http", default=False),
    )


def _address(path: str) -> str:
    # Spark writes local paths as file:/directory
    is_short = path.startswith("file:/") and not path.startswith("file://")
    return path.replace("file:", "file://", 1) if is_short else path


def truth_of(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false.

    Raises:
        InvalidInputError: It is something else.
    """
    text = given.get(name, str(default)).lower()
    if text not in _TRUTHS:
        raise _refused(f"{name} is {text!r}, neither true nor false")
    return _TRUTHS[text]


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdecimal() or not int(text):
        raise _refused(f"{name} is {text!r}, not a whole number above 0")
    return int(text)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise _refused(f"as-of is {text!r}, not an ISO date as 2026-01-31T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
