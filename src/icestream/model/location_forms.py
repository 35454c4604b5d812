"""The two forms of stored locations: absolute, and relative to a container. All rows at once.

What is made relative expands to exactly the text that it was, so that either form can be made of
the other at any time; a location whose text would not come back is left as it is.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.container_rankings import NO_OWNER
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.location_pools import (
    Mask,
    as_texts,
    canonical_texts,
    matches,
    spelled_texts,
    starts_with,
)
from icestream.model.locations import RELATIVE_SCHEME
from icestream.model.templates import UrlTemplate

PLAIN_ARGUMENTS = r"^[A-Za-z0-9\-._~!$&'()*+,;=:@/]*$"
"""Texts whose parts are the same inside a template and outside of it."""

_START = f"{RELATIVE_SCHEME}://"
_JOINED = pa.scalar("/", pa.large_string())


def has_relative(pool: pa.ChunkedArray | pa.Array) -> bool:
    """Tell whether any of the stored locations is relative."""
    return bool(pc.any(pc.starts_with(pool, _START)).as_py())


def absolute_texts(pool: pa.ChunkedArray | pa.Array, containers: ContainerSet) -> pa.Array:
    """Return locations as absolute ones; those of unknown containers stay, and absolute ones too.

    Raises:
        InvalidInputError: One lacks an argument of a template.
    """
    texts = as_texts(pool)
    relative = starts_with(texts, _START) if len(texts) else np.zeros(0, np.bool_)
    if not relative.any():
        return texts
    chosen = texts if relative.all() else texts.filter(pa.array(relative))
    expanded = as_texts(containers.expand_all(pa.chunked_array([chosen])))
    if relative.all():
        return expanded
    return pc.replace_with_mask(texts, pa.array(relative), expanded)


def relative_texts(
    pool: pa.ChunkedArray | pa.Array, containers: ContainerSet, *, templates: bool = False
) -> pa.Array:
    """Return locations relative to the stored containers that own them, the others unchanged.

    Args:
        pool: The locations, absolute or relative.
        containers: Those in force.
        templates: Also fill templates, whose locations icechunk does not read.
    """
    texts = as_texts(pool)
    absolute = absolute_texts(texts, containers)
    sound = np.ones(len(texts), np.bool_)
    sound[containers.malformed(pa.chunked_array([absolute])).to_numpy()] = False
    if not sound.any():
        return texts
    kept = absolute if sound.all() else absolute.filter(pa.array(sound))
    stored = as_texts(
        containers.stored_texts(pa.chunked_array([kept]), relative=None, validate=False)
    )
    if templates:
        stored = _filled_backwards(stored, containers)
    if not sound.all():
        stored = pc.replace_with_mask(texts, pa.array(sound), stored)
    comes_back = pc.equal(absolute_texts(stored, containers), absolute)
    return stored if pc.all(comes_back).as_py() else pc.if_else(comes_back, stored, texts)


def owners(texts: pa.Array, containers: ContainerSet) -> list[tuple[VirtualChunkContainer, Mask]]:
    """Return the stored containers that own some of these absolute locations, and which."""
    canonical, faulty = canonical_texts(spelled_texts(texts))
    ranking = containers.automatic.ranking
    found = np.where(faulty, NO_OWNER, ranking.owners(canonical))
    return [
        (ranking.containers[position], found == position)
        for position in np.unique(found[found != NO_OWNER])
    ]


def _filled_backwards(texts: pa.Array, containers: ContainerSet) -> pa.Array:
    """Return absolute locations that templates own as the arguments of these templates."""
    for container, owned in owners(texts, containers):
        template = container.template
        if template is None:
            continue
        rows = owned & matches(texts, PLAIN_ARGUMENTS) & matches(texts, _pattern(template))
        if rows.any():
            named = pc.extract_regex(texts.filter(pa.array(rows)), _pattern(template))
            arguments = pc.binary_join_element_wise(*named.flatten(), _JOINED)
            beginning = pa.scalar(f"{_START}{container.name}", pa.large_string())
            filled = pc.binary_join_element_wise(beginning, arguments, _JOINED)
            texts = pc.replace_with_mask(texts, pa.array(rows), filled)
    return texts


def _pattern(template: UrlTemplate) -> str:
    """Return a regular expression with a named group per placeholder; no argument has a slash."""
    first, *others = map(re.escape, template.literals)
    groups = (f"(?P<argument{i}>[^/]+?){literal}" for i, literal in enumerate(others))
    return f"^{first}{''.join(groups)}$"
