"""Which groups a placement needs, with which attributes."""

from collections.abc import Mapping
from typing import Any

from icestream.ingest.placement.placing import Placement
from icestream.model.paths import ROOT, ancestors_of, parent_of


def group_attributes(placement: Placement, group: str = ROOT) -> dict[str, Mapping[str, Any]]:
    """Return the attributes of all groups by path in the repository; parents come first.

    Args:
        placement: Where files go.
        group: The group of the archive.
    """
    attributes: dict[str, Mapping[str, Any]] = {}
    for section in placement.sections:
        if not len(section.files):
            continue
        for path, found in placement.groups.items():
            attributes[section.target(path, group)] = found
        for path in (*section.virtual, *section.copied):
            attributes.setdefault(parent_of(section.target(path, group)), {})
    for path in [*attributes]:
        for above in ancestors_of(path):
            attributes.setdefault(above, {})
    return {path: attributes[path] for path in sorted(attributes)}
