"""Who is told how far a run has come: a protocol, and the listener that keeps silent."""

from typing import Literal, Protocol

type Stage = Literal["list", "scan", "place", "write", "commit"]


class Progress(Protocol):
    """A listener of a run. It is told; it never decides, and whatever it does is fast."""

    def stage(self, name: Stage, total: int | None = None) -> None:
        """A stage begins; `total` counts its files (list, scan, place) or manifests (write)."""

    def advance(self, count: int = 1, *, references: int = 0, set_aside: int = 0) -> None:
        """So many more files or manifests of the stage are done.

        Args:
            count: Files or manifests that are done since the last call, those set aside among them.
            references: References found or written since the last call.
            set_aside: How many of the files could not be read.
        """

    def note(self, text: str) -> None:
        """Something that a person watching would like to know, in one line."""


class SilentProgress:
    """A listener that tells nobody."""

    def stage(self, name: Stage, total: int | None = None) -> None:
        """Nobody is told."""

    def advance(self, count: int = 1, *, references: int = 0, set_aside: int = 0) -> None:
        """Nobody is told."""

    def note(self, text: str) -> None:
        """Nobody is told."""


SILENT = SilentProgress()
