"""What a placement came to: all that people and the next run have to know of it, and no places."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from icestream.ingest.declaration.archives import Archive
from icestream.ingest.placement.placing import Placement, groups_of
from icestream.ingest.placement.unmarked_gaps import unmarked_gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOutcome:
    """What a placement came to."""

    groups: Mapping[str, str] = field(default_factory=dict)
    """By URL of a file the group that it was put into; none where names of files tell it."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By URL why a file that can be read has no place (`on-mismatch: set-aside`)."""
    gaps: tuple[str, ...] = ()
    """Positions without a file."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing."""


def outcome_of(placement: Placement, archive: Archive) -> PlacementOutcome:
    """Return what a placement by a declaration came to."""
    has_names = archive.combine.group_per_file is not None
    return PlacementOutcome(
        groups={} if has_names else groups_of(placement),
        left_out={placement.urls[row]: reason for row, reason in placement.set_aside.items()},
        gaps=tuple(map(str, placement.gaps)),
        notes=unmarked_gaps(placement),
    )
