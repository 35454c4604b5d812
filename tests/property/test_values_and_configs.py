"""Metadata values and configurations: any value survives, any bytes give a value or FormatError."""

import contextlib
import time
import warnings
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.configs import configs, full_config, json_values

from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
)
from icestream.codec.flexbuffers import decode_flex, encode_flex
from icestream.codec.metadata_values import decode_value, encode_value
from icestream.errors import FormatError
from icestream.model.config import RepositoryConfig, validate
from icestream.model.effective_config import effective

FULL_YAML = encode_config_yaml(full_config())
FULL_FLEX = encode_config_flex(full_config())
SECONDS_PER_DOCUMENT = 20
"""Far above the usual milliseconds, far below a decoder that has no bounds."""


@given(json_values)
def test_any_json_value_survives_a_flexbuffer(value: Any):
    assert decode_flex(encode_flex(value), name="value") == value


@given(json_values, st.sampled_from([1, 2]))
def test_any_json_value_survives_as_metadata(value: Any, spec: int):
    assert decode_value(encode_value(value, spec), spec, name="value") == value


@given(configs())
def test_any_configuration_survives_both_documents(config: RepositoryConfig):
    validate(config)

    assert decode_config_yaml(encode_config_yaml(config), name="yaml") == config
    assert decode_config_flex(encode_config_flex(config), name="flex") == config


@given(configs(), configs())
def test_merging_gives_a_valid_configuration_and_the_other_one_wins(
    one: RepositoryConfig, other: RepositoryConfig
):
    merged = one.merge(other)

    validate(merged)
    effective(merged)
    assert merged.merge(other) == merged
    assert one.merge(RepositoryConfig()) == one


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_an_error_of_format(data: bytes):
    _decode_everything(data)


@st.composite
def damaged(draw: st.DrawFn, document: bytes) -> bytes:
    """Return a document with flipped bits, cuts and insertions."""
    data = bytearray(document)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["flip", "cut", "insert", "truncate"])):
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + draw(st.integers(1, 30))]
            case "truncate":
                del data[at:]
            case _:
                data[at:at] = draw(st.binary(max_size=8) | st.sampled_from(YAML_MARKS))
    return bytes(data)


YAML_MARKS = [
    b"&a ",
    b"*a ",
    b"!x ",
    b"? ",
    b"[",
    b"{",
    b"|\n",
    b"- ",
    b": ",
    b"%YAML 9.9\n",
    b"!<",
]


@given(damaged(FULL_YAML))
def test_a_damaged_yaml_document_gives_a_value_or_an_error_of_format(data: bytes):
    _decode_everything(data)


@given(damaged(FULL_FLEX))
def test_a_damaged_flexbuffer_gives_a_value_or_an_error_of_format(data: bytes):
    _decode_everything(data)


@given(json_values.flatmap(lambda value: damaged(encode_value(value, 1))))
def test_damaged_message_pack_gives_a_value_or_an_error_of_format(data: bytes):
    _decode_everything(data)


def _decode_everything(data: bytes) -> None:
    started = time.monotonic()
    for decode in (
        lambda: decode_config_yaml(data, name="yaml"),
        lambda: decode_config_flex(data, name="flex"),
        lambda: decode_value(data, 1, name="value"),
        lambda: decode_value(data, 2, name="value"),
    ):
        with warnings.catch_warnings(), contextlib.suppress(FormatError):
            warnings.simplefilter("ignore", UserWarning)
            decode()
    assert time.monotonic() - started < SECONDS_PER_DOCUMENT
