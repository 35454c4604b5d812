"""Node paths: absolute, `/` for the root, no empty, `.` or `..` parts."""

from icestream.errors import ErrorKind, InvalidInputError

ROOT = "/"


def check_path(path: str) -> str:
    """Return `path` if it is a well-formed absolute node path.

    Raises:
        InvalidInputError: It is relative, ends in a slash, or has an empty, `.` or `..` part.
    """
    if not is_path(path):
        raise InvalidInputError(
            f"invalid node path {path!r}: use an absolute path such as '/group/array'",
            kind=ErrorKind.INVALID_PATH,
        )
    return path


def is_path(path: str) -> bool:
    """Tell whether `path` is a well-formed absolute node path."""
    if path == ROOT:
        return True
    start, *parts = path.split("/")
    return not start and bool(parts) and not any(part in {"", ".", ".."} for part in parts)


def absolute(path: str) -> str:
    """Return the node path for what a user typed: with or without the leading slash."""
    return check_path("/" + path.strip("/"))


def parent_of(path: str) -> str:
    """Return the path of the group that holds `path`; the root holds itself."""
    return path.rpartition("/")[0] or ROOT


def ancestors_of(path: str) -> list[str]:
    """Return the paths of the groups above `path`, nearest first."""
    found = []
    while path != ROOT:
        path = parent_of(path)
        found.append(path)
    return found


def name_of(path: str) -> str:
    """Return the last part of the path; empty for the root."""
    return path.rpartition("/")[2]


def is_below(path: str, group: str) -> bool:
    """Tell whether `path` lies strictly below `group`."""
    return path != group and (group == ROOT or path.startswith(group + "/"))


def sort_key(path: str) -> bytes:
    """Return the key that orders nodes in a snapshot: the raw UTF-8 bytes."""
    return path.encode()


def rebase_path(path: str, old_root: str, new_root: str) -> str:
    """Return where `path` lands when `old_root` is renamed to `new_root`."""
    return new_root + path[len(old_root) :]
