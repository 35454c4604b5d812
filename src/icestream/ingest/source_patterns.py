"""Folders and URLs with wildcards, as archives name their sources. Pure.

`*` stands for any characters within a name, `?` for one, `**` for any characters at all, and `**/`
for any number of folders, also none. A text without wildcards is a file, or a folder with all that
is in it. In URLs `%2A` and `%3F` are a star and a question mark that are meant as such.

>>> pattern = parse_source("s3://bucket/sst/**/*.nc")
>>> pattern.folder, pattern.is_single
('sst/', False)
>>> [bool(re.search(pattern.expression, key)) for key in ("sst/2020/a.nc", "sst/a.nc", "a.nc")]
[True, True, False]
"""

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.locations import spelled

_WILDCARDS = re.compile(r"\*\*/|\*+|\?")
_EXPRESSIONS = {"*": "[^/]*", "?": "[^/]", "**/": "(?:.*/)?"}
_ANYTHING = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePattern:
    """What one entry of `sources` means."""

    text: str
    """As it is declared."""
    root: str
    """The URL of the bucket, the host, or the root of the file system, with a slash at its end."""
    key: str
    """What follows the root: decoded and without wildcards if it is a single one."""
    folder: str
    """The longest folder without wildcards, empty or with a slash at its end."""
    expression: str
    """For the keys of objects, as RE2 has expressions."""
    is_single: bool
    """It has no wildcards: it is a file, or a folder with all that is in it."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.root == "file:///"

    @property
    def is_web(self) -> bool:
        """Whether it is on a web server, which has no listings."""
        return self.root.startswith(("http://", "https://"))

    @property
    def shows_hidden(self) -> bool:
        """Whether names with a dot in front are meant too."""
        return "/." in f"/{self.key}"

    @property
    def depth(self) -> int | None:
        """How many folders deep matches are at most; None for any depth."""
        return None if self.is_single or "**" in self.key else self.key.count("/")

    @property
    def covering_url(self) -> str:
        """The URL of the file itself, or of the folder that holds all that is meant."""
        key = self.key if self.is_single else self.folder
        return self.root + quoted_key(key, local=self.is_local)


def parse_source(text: str) -> SourcePattern:
    """Return what an entry of `sources` means.

    Raises:
        InvalidInputError: It is not a path and not a URL with a bucket or host.
    """
    if "://" not in text:
        path = os.path.abspath(text) + ("/" if text.endswith(("/", os.sep)) else "")  # noqa: PTH100  keeps wildcards
        return _parsed(text, "file:///", path.lstrip("/"), encoded=False)
    scheme, _, rest = spelled(text).partition("://")
    if scheme == "file":
        return _parsed(text, "file:///", rest.lstrip("/"), encoded=True)
    bucket, _, key = rest.partition("/")
    if not bucket or _WILDCARDS.search(bucket):
        raise InvalidInputError(
            f"the source {text} names no bucket or host; write it as s3://bucket/folder/*.nc",
            kind=ErrorKind.CANNOT_PARSE_URL,
        )
    return _parsed(text, f"{text.partition('://')[0]}://{bucket}/", key, encoded=True)


def excluding_expression(text: str) -> tuple[str, str]:
    """Return which root an entry of `exclude` is for, empty for any, and its expression."""
    if "://" in text or text.startswith("/"):
        pattern = parse_source(text)
        return pattern.root, _whole(pattern.expression, is_folder=pattern.is_single)
    expression, has_wildcards = _translated(text, encoded=False)
    return "", f"(?:^|/){_closed(expression, text, has_wildcards=has_wildcards)}"


def quoted_key(key: str, *, local: bool) -> str:
    """Return the key of an object as it stands in a URL."""
    return quote(key) if local else key.replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def needs_quotes(*, local: bool) -> str:
    """Return an expression for keys that stand in a URL in another form."""
    return r"[^A-Za-z0-9_.~/-]" if local else "[%?#]"


def _parsed(text: str, root: str, key: str, *, encoded: bool) -> SourcePattern:
    first = _WILDCARDS.search(key)
    decode = unquote if encoded else str
    literal = key if first is None else key[: first.start()]
    is_single = first is None
    decoded = decode(literal)
    folder = decoded if is_single and decoded.endswith("/") else decoded.rpartition("/")[0]
    expression, _ = _translated(key, encoded=encoded)
    return SourcePattern(
        text=text,
        root=root,
        key=decoded if is_single else key,
        folder=f"{folder.rstrip('/')}/" if folder.rstrip("/") else "",
        expression=f"^{expression}$",
        is_single=is_single,
    )


def _translated(pattern: str, *, encoded: bool) -> tuple[str, bool]:
    """Return a pattern as an expression, and whether it has wildcards."""
    parts: list[str] = []
    position = 0
    decode = unquote if encoded else str
    for found in _WILDCARDS.finditer(pattern):
        parts.append(re.escape(decode(pattern[position : found.start()])))
        parts.append(_EXPRESSIONS.get(found[0], _ANYTHING))
        position = found.end()
    parts.append(re.escape(decode(pattern[position:])))
    return "".join(parts), position > 0


def _whole(expression: str, *, is_folder: bool) -> str:
    if not is_folder:
        return expression
    return expression.removesuffix("$").removesuffix("/") + "(?:/.*)?$"


def _closed(expression: str, text: str, *, has_wildcards: bool) -> str:
    if text.endswith("/"):
        return f"{expression}.*$"
    return f"{expression}$" if has_wildcards else f"{expression}(?:/.*)?$"
