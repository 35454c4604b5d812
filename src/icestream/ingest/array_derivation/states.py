"""What the next computation of a derived array has to know of the last one."""

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, FormatError

_FORMAT = "icestream-array"
_VERSION = 1

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedAxis:
    """How positions along a dimension fall into groups of neighbours."""

    labels: Numbers
    """What each group is called: the microseconds at which it begins, or a position."""
    starts: Numbers
    """The first position of each group, and after the last one how many there are."""

    def __len__(self) -> int:
        return len(self.labels)

    def groups_of(self, positions: Numbers) -> Numbers:
        """Return the group of each position."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def differing(self, before: "GroupedAxis") -> npt.NDArray[np.bool_]:
        """Tell which groups are others than they were, or were not there."""
        common = min(len(self), len(before))
        found = np.ones(len(self), np.bool_)
        found[:common] = (
            (self.labels[:common] != before.labels[:common])
            | (self.starts[:common] != before.starts[:common])
            | (self.starts[1 : common + 1] != before.starts[1 : common + 1])
        )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class DerivationState:
    """The version of the input that the output follows, and how that was grouped."""

    input_snapshot: str
    axis: GroupedAxis
    declaration: str
    """A digest: with another declaration everything is computed anew."""


def encode_state(state: DerivationState) -> bytes:
    """Return a state as bytes, always the same ones."""
    document = {
        _FORMAT: _VERSION,
        "input-snapshot": state.input_snapshot,
        "declaration": state.declaration,
        "labels": state.axis.labels.tolist(),
        "starts": state.axis.starts.tolist(),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_state(data: bytes) -> DerivationState:
    """Return the state that bytes encode.

    Raises:
        FormatError: They encode none, or one of a newer version.
    """
    try:
        document = json.loads(data)
        version = document[_FORMAT]
        state = DerivationState(
            document["input-snapshot"],
            GroupedAxis(
                np.array(document["labels"], np.int64), np.array(document["starts"], np.int64)
            ),
            document["declaration"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"the checkpoint is not of a derived array: {error}", kind=ErrorKind.DESERIALIZATION
        ) from error
    if version > _VERSION:
        raise FormatError(
            f"the checkpoint has version {version}, and this icestream knows {_VERSION}; install a "
            "newer one",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )
    return state
