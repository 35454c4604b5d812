"""Pictures of the history of a repository."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from icestream.model.ids import SnapshotId, id_text
from icestream.model.repo_info import SnapshotEntry
from icestream.model.times import datetime_of

_ROW_HEIGHT, _LANE_WIDTH, _RADIUS, _TEXT_GAP = 28, 22, 6, 16
_COLOURS = ("#2f6fb0", "#b0562f", "#3f8f4f", "#8a4fa3", "#a38a2f", "#2f9a9a")


@dataclass(frozen=True, slots=True)
class Row:
    """One snapshot in the picture."""

    snapshot_id: SnapshotId
    parent_id: SnapshotId | None
    lane: int
    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AncestryGraph:
    """The history as rows, newest first, one lane per line of descent."""

    rows: tuple[Row, ...]
    plain: bool = False
    """Text without colours."""

    @classmethod
    def of(
        cls,
        entries: Mapping[SnapshotId, SnapshotEntry],
        branches: Mapping[str, SnapshotId],
        tags: Mapping[str, SnapshotId],
        *,
        plain: bool = False,
    ) -> "AncestryGraph":
        """Lay out snapshots, and the branches and tags that point at them."""
        lanes: dict[SnapshotId, int] = {}
        rows = []
        for entry in sorted(entries.values(), key=lambda e: (-e.flushed_at, e.id)):
            lane = lanes.get(entry.id, _next_lane(lanes))
            lanes[entry.id] = lane
            if entry.parent_id is not None:
                lanes[entry.parent_id] = min(lane, lanes.get(entry.parent_id, lane))
            rows.append(_row(entry, lane, branches, tags))
        return cls(tuple(rows), plain)

    def __str__(self) -> str:
        width = max((row.lane for row in self.rows), default=0) + 1
        return "\n".join(self._line(row, width) for row in self.rows)

    __repr__ = __str__

    def _line(self, row: Row, width: int) -> str:
        track = "".join("●" if lane == row.lane else "│" for lane in range(width))
        track = "".join(t if i <= row.lane else " " for i, t in enumerate(track))
        labels = "".join(f" ({label})" for label in row.labels)
        if not self.plain and labels:
            labels = f"\x1b[33m{labels}\x1b[0m"
        return f"{track} {id_text(row.snapshot_id)}{labels} {row.text}"

    def _repr_svg_(self) -> str:
        position = {row.snapshot_id: i for i, row in enumerate(self.rows)}
        lane = {row.snapshot_id: row.lane for row in self.rows}
        width = (max(lane.values(), default=0) + 2) * _LANE_WIDTH
        lines, dots = [], []
        for i, row in enumerate(self.rows):
            x, y = _point(row.lane, i)
            colour = _COLOURS[row.lane % len(_COLOURS)]
            if row.parent_id in position:
                x2, y2 = _point(lane[row.parent_id], position[row.parent_id])
                lines.append(
                    f'<path d="M{x} {y}C{x} {y2},{x2} {y},{x2} {y2}" '
                    f'fill="none" stroke="{colour}" stroke-width="2"/>'
                )
            labels = "".join(f" [{label}]" for label in row.labels)
            text = escape(f"{id_text(row.snapshot_id)[:8]}{labels} {row.text}")
            dots.append(
                f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{colour}"/>'
                f'<text x="{width + _TEXT_GAP}" y="{y + 4}">{text}</text>'
            )
        height = len(self.rows) * _ROW_HEIGHT + _ROW_HEIGHT
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 700}" height="{height}" '
            f'font-family="sans-serif" font-size="12">{"".join(lines + dots)}</svg>'
        )


def _row(
    entry: SnapshotEntry,
    lane: int,
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
) -> Row:
    labels = [name for name, tip in sorted(branches.items()) if tip == entry.id]
    labels += [f"tag {name}" for name, target in sorted(tags.items()) if target == entry.id]
    when = datetime_of(entry.flushed_at).strftime("%Y-%m-%d %H:%M")
    message = entry.message.split("\n", 1)[0]
    return Row(entry.id, entry.parent_id, lane, f"{when} {message}", tuple(labels))


def _next_lane(lanes: Mapping[SnapshotId, int]) -> int:
    return max(lanes.values(), default=-1) + 1


def _point(lane: int, row: int) -> tuple[int, int]:
    return (lane + 1) * _LANE_WIDTH, (row + 1) * _ROW_HEIGHT
