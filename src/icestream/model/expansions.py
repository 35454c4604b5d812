"""Relative locations `vcc://name/path` made absolute: the prefix or template of the container."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.containers import VirtualChunkContainer
from icestream.model.location_pools import Mask, exchanged, matches, starts_with
from icestream.model.locations import RELATIVE_SCHEME, invalid_location
from icestream.model.templates import UrlTemplate, missing_argument

_TEXT = pa.large_string()
_START = f"{RELATIVE_SCHEME}://"


def folder_of(prefix: str) -> str:
    """Return what the path of a relative location is appended to."""
    if prefix.endswith("/"):
        return prefix
    return f"{prefix}/" if "/" in prefix else f"{prefix}://"


def split_relative(location: str) -> tuple[str, str]:
    """Return the name and the path of a relative location.

    Raises:
        InvalidInputError: It has no path.
    """
    name, separator, path = location[len(_START) :].partition("/")
    if not separator or not name:
        raise invalid_location(location, "is relative, but not of the form vcc://name/path")
    return name, path


def expanded_text(container: VirtualChunkContainer, path: str) -> str:
    """Return the absolute location of a path in a container; it is not checked yet.

    Raises:
        InvalidInputError: A placeholder of the template has neither an argument nor a default.
    """
    template = container.template
    if template is None:
        return folder_of(container.url_prefix) + path
    return template.fill(path.split("/"))


def relative_rows(texts: pa.Array) -> Mask:
    """Tell which texts are relative locations, with a name and a path."""
    rows = starts_with(texts, _START)
    return rows & matches(texts, f"^{_START}[^/]+/") if rows.any() else rows


def expanded_texts(
    texts: pa.Array,
    containers: Mapping[str, VirtualChunkContainer],
    *,
    spelling: Callable[[str], str] = str,
) -> pa.Array:
    """Return spelled texts with the relative ones made absolute, but for those of other names.

    Args:
        texts: The locations.
        containers: By name.
        spelling: What is done with prefixes and templates before they are used.

    Raises:
        InvalidInputError: A placeholder of a template has neither an argument nor a default.
    """
    if not relative_rows(texts).any():
        return texts
    for name, container in containers.items():
        beginning = f"{_START}{name}/"
        rows = starts_with(texts, beginning)
        if not rows.any():
            continue
        template = container.template
        if template is None:
            folder = spelling(folder_of(container.url_prefix))
            texts = exchanged(texts, rows, beginning, folder)
        else:
            template = replace(template, text=spelling(template.text))
            filled = _filled(template, texts.filter(pa.array(rows)), beginning)
            texts = pc.replace_with_mask(texts, pa.array(rows), filled)
    return texts


def _filled(template: UrlTemplate, texts: pa.Array, beginning: str) -> pa.Array:
    paths = exchanged(texts, np.ones(len(texts), np.bool_), beginning, "")
    segments = pc.split_pattern(paths, "/")
    literals = [pa.scalar(literal, _TEXT) for literal in template.literals]
    parts = literals[:1]
    for i, default in enumerate(template.encoded_defaults()):
        column = pc.list_slice(segments, i, i + 1, return_fixed_size_list=True).flatten()
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, _TEXT), column)
        for code in ("%2F", "%2f"):
            column = pc.replace_substring(column, code, "/")
        column = pc.coalesce(column, pa.scalar(default, _TEXT))
        if column.null_count:
            raise missing_argument(template, i)
        parts += [column, literals[i + 1]]
    return pc.binary_join_element_wise(*parts, pa.scalar("", _TEXT))
