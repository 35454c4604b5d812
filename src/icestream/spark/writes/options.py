"""The options of `df.write.format("icestream")`, as texts and as values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from icestream.errors import ErrorKind, InvalidInputError
from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery, parse_names
from icestream.spark.options import PLACE_OPTIONS, check_known, place_of, truth_of
from icestream.spark.writes.targets import CommitWords
from icestream.storage.urls import StorageUrl

REFERENCES = "refs"
_CELLS = ("array", "group", "variables", "decode", "indexes")
_COMMIT = ("branch", "message", "rebase")
_KNOWN = (*PLACE_OPTIONS, *_COMMIT, "table", *_CELLS, "validate-containers")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a writer asked for."""

    place: StorageUrl
    branch: str = "main"
    words: CommitWords
    is_references: bool = False
    query: CellQuery
    indexes: bool = False
    validate_containers: bool = True
    authorize: tuple[str, ...] = ()
    """Prefixes that virtual chunks may be read from, where a chunk is changed in part."""

    def open(self) -> Repository:
        """Open the repository at the path."""
        authorized: dict[str, Any] | None = dict.fromkeys(self.authorize) or None
        return Repository.open(self.place.storage(), authorize_virtual_chunk_access=authorized)


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return options as values.

    Raises:
        InvalidInputError: One is not known, has no meaning here, or excludes another.
    """
    given = {name.lower(): text for name, text in options.items()}
    check_known(given, _KNOWN, "icestream.spark.write_array(df, repo)")
    _check_together(given)
    words = CommitWords(rebase=truth_of(given, "rebase", default=False))
    return WriteOptions(
        place=place_of(given),
        branch=given.get("branch", "main"),
        words=replace(words, message=given.get("message", words.message)),
        is_references="table" in given,
        query=CellQuery(
            array=given.get("array"),
            group=given.get("group", "/"),
            variables=parse_names(given["variables"]) if "variables" in given else None,
            decode=truth_of(given, "decode", default=True),
        ),
        indexes=truth_of(given, "indexes", default=False),
        validate_containers=truth_of(given, "validate-containers", default=True),
        authorize=parse_names(given.get("authorize", "")),
    )


def _check_together(given: Mapping[str, str]) -> None:
    table = given.get("table", REFERENCES)
    if table != REFERENCES:
        raise _refused(f"table is {table!r}; {REFERENCES!r} is the only table that can be written")
    if "table" in given and (odd := [name for name in _CELLS if name in given]):
        raise _refused(f"the option {odd[0]!r} means nothing for a table; leave one of them out")
    if "table" not in given and "validate-containers" in given:
        raise _refused("validate-containers means something for table=refs only; leave it out")
    if "array" in given and (odd := [name for name in ("group", "variables") if name in given]):
        raise _refused(f"array names one array, so {odd[0]!r} means nothing; leave one of them out")


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
