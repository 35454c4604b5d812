"""Derived arrays as documents."""

import numpy as np
import pytest

from icestream.errors import FormatError, InvalidInputError
from icestream.ingest.array_derivation.declarations import (
    ArrayDerivation,
    ArrayPlace,
    Period,
    decode_derivation,
    encode_derivation,
)
from icestream.ingest.array_derivation.states import (
    DerivationState,
    GroupedAxis,
    decode_state,
    encode_state,
)

MONTHLY = b"""
name: sst-monthly
input: {repository: s3://bucket/sst, array: /sst}
output: {repository: s3://bucket/means, branch: draft, array: /monthly/sst}
along: time
group: month
chunk-length: 12
"""


def test_a_document_says_what_is_derived() -> None:
    derivation = decode_derivation(MONTHLY)

    assert derivation == ArrayDerivation(
        name="sst-monthly",
        input=ArrayPlace(repository="s3://bucket/sst", array="/sst"),
        output=ArrayPlace(repository="s3://bucket/means", branch="draft", array="/monthly/sst"),
        along="time",
        group=Period.MONTH,
        chunk_length=12,
    )
    assert derivation.output.group == "/monthly"
    assert decode_derivation(encode_derivation(derivation)) == derivation


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"group: month", b"group: fortnight", "'fortnight' is not one of year, month"),
        (b"group: month", b"", "either a group"),
        (b"group: month", b"group: month\nsteps: 3", "either a group"),
        (b"group: month", b"steps: 0", "steps"),
        (b"along: time", b"", "along: is missing"),
        (b"array: /sst}", b"array: /}", "input.array"),
        (b"name: sst-monthly", b"name: 'a b'", "name"),
        (b"name: sst-monthly", b"name: a_b", "name: 'a_b' is no name .* words of letters and dig"),
        (b"name: sst-monthly", b"name: " + 95 * b"a", "name: .* 100 characters at most"),
        (b"name: sst-monthly", b"name: x\nfunction: median", "'median' is none of mean"),
        (b"name: sst-monthly", b"name: x\ncolour: red", "colour: is unknown"),
        (b"name: sst-monthly", b"name: x\nversion: 2", "newer icestream"),
        (
            b"s3://bucket/means, branch: draft, array: /monthly/sst",
            b"s3://bucket/sst, array: /m",
            "clash",
        ),
    ],
)
def test_faults_are_named_by_their_place(old: bytes, new: bytes, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        decode_derivation(MONTHLY.replace(old, new))


def test_faults_are_told_all_at_once() -> None:
    with pytest.raises(InvalidInputError, match=r"faults:(.|\n)*name(.|\n)*along"):
        decode_derivation(b"group: month")


def test_states_come_back_as_they_were() -> None:
    axis = GroupedAxis(np.array([5, 9]), np.array([0, 3, 4]))
    state = decode_state(encode_state(DerivationState("ABC", axis, "f16")))

    assert (state.input_snapshot, state.declaration) == ("ABC", "f16")
    assert not state.axis.differing(axis).any()
    with pytest.raises(FormatError, match="not of a derived array"):
        decode_state(b"{}")
    with pytest.raises(FormatError, match="newer"):
        decode_state(encode_state(state).replace(b'"icestream-array":1', b'"icestream-array":9'))


def test_groups_differ_where_their_name_begin_or_end_does() -> None:
    before = GroupedAxis(np.array([10, 20, 30]), np.array([0, 3, 5, 6]))
    after = GroupedAxis(np.array([10, 20, 30, 40]), np.array([0, 3, 5, 7, 9]))

    assert after.differing(before).tolist() == [False, False, True, True]
    assert before.differing(after).tolist() == [False, False, True]
    assert after.groups_of(np.array([0, 2, 3, 6, 8])).tolist() == [0, 0, 1, 2, 3]
