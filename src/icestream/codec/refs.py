"""Branches and tags of spec 1: one small JSON file each, and empty files for deleted tags."""

import json
from enum import StrEnum
from typing import NamedTuple

from icestream.errors import FormatError, InvalidInputError
from icestream.model.ids import SnapshotId, id_text, parse_snapshot_id
from icestream.model.repo_info import check_ref_name

REFS_PREFIX = "refs/"

_REF_FILE = "ref.json"
_TOMBSTONE_FILE = "ref.json.deleted"
_MAX_REF_BYTES = 4096


class RefKind(StrEnum):
    """What a file below `refs/` stands for."""

    BRANCH = "branch"
    TAG = "tag"
    TAG_TOMBSTONE = "tag tombstone"
    """The tag was deleted; its name can never be used again."""


_KINDS = {
    ("branch", _REF_FILE): RefKind.BRANCH,
    ("tag", _REF_FILE): RefKind.TAG,
    ("tag", _TOMBSTONE_FILE): RefKind.TAG_TOMBSTONE,
}


class RefFile(NamedTuple):
    """A file below `refs/`."""

    kind: RefKind
    name: str


def branch_path(name: str) -> str:
    """Return the path of a branch's file."""
    return f"{REFS_PREFIX}branch.{check_ref_name(name, slashes=False)}/{_REF_FILE}"


def tag_path(name: str) -> str:
    """Return the path of a tag's file."""
    return f"{REFS_PREFIX}tag.{check_ref_name(name, slashes=False)}/{_REF_FILE}"


def tag_tombstone_path(name: str) -> str:
    """Return the path of the empty file that says that a tag was deleted."""
    return f"{REFS_PREFIX}tag.{check_ref_name(name, slashes=False)}/{_TOMBSTONE_FILE}"


def find_ref(path: str) -> RefFile | None:
    """Return what a listed path stands for, or None for a stray file."""
    folder, _, file = path.removeprefix(REFS_PREFIX).partition("/")
    prefix, _, name = folder.partition(".")
    kind = _KINDS.get((prefix, file))
    if kind is None or not name or not path.startswith(REFS_PREFIX):
        return None
    return RefFile(kind, name)


def encode_ref(snapshot_id: SnapshotId) -> bytes:
    """Return the content of a branch's or tag's file."""
    return f'{{"snapshot":"{id_text(snapshot_id)}"}}'.encode()


def decode_ref(data: bytes, *, name: str) -> SnapshotId:
    """Return the snapshot that the content of a branch's or tag's file names.

    Raises:
        FormatError: The content is not JSON, or names no snapshot.
    """
    if len(data) > _MAX_REF_BYTES:
        raise FormatError(f"{name}: has {len(data)} bytes, too many for a ref")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: is not JSON ({error})") from error
    text = document.get("snapshot") if isinstance(document, dict) else None
    if not isinstance(text, str):
        raise FormatError(f'{name}: is not of the form {{"snapshot": "<id>"}}')
    try:
        return parse_snapshot_id(text)
    except InvalidInputError as error:
        raise FormatError(f"{name}: {error}") from error
