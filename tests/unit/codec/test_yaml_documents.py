import tracemalloc
from typing import Any

import pytest
import yaml

from icestream.codec import yaml_documents
from icestream.codec.yaml_documents import (
    MAX_BYTES,
    MAX_DEPTH,
    Tagged,
    dump_yaml,
    load_yaml,
    load_yaml_stream,
)
from icestream.errors import ErrorKind, FormatError


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with the compiled parser, where there is one, and with the other."""
    monkeypatch.setattr(yaml_documents, "_PARSER", getattr(yaml, request.param, yaml.SafeLoader))


def load(text: str) -> Any:
    return load_yaml(text.encode(), name="config.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("+7", 7),
        ("-12", -12),
        ("0x10", 16),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("-.inf", float("-inf")),
        # other than in YAML 1.1
        ("yes", "yes"),
        ("off", "off"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("'7'", "7"),
        ('"true"', "true"),
        ("!!str 7", "7"),
    ],
)
def test_scalars_are_read_as_icechunk_reads_them(text: str, value: Any):
    assert load(f"key: {text}") == {"key": value}


@pytest.mark.parametrize(
    "text",
    ["true", "null", "~", "", "7", "0o17", "1e3", "yes", "010", "1:30", ".inf", "é\n"],
)
def test_texts_that_look_like_something_else_come_back_as_texts(text: str):
    assert load_yaml(dump_yaml({"key": text, text: [text]}), name="x") == {
        "key": text,
        text: [text],
    }


@pytest.mark.parametrize("text", ["\x85", "a\u2028b", "\0", "# x", " x ", "a: b", "\ufeff", "'"])
def test_odd_texts_come_back(text: str):
    tree = {"key": text, "tagged": Tagged("t", text)}

    assert load_yaml(dump_yaml(tree), name="x") == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!Included 1", Tagged("Included", 1)),
        ("!Included '1'", Tagged("Included", "1")),
        ("!x {a: 1}", Tagged("x", {"a": 1})),
        ("!or ['true', !y null]", Tagged("or", ["true", Tagged("y", None)])),
    ],
)
def test_tags_of_variants_are_kept(text: str, value: Tagged):
    assert load(f"key: {text}") == {"key": value}
    assert load_yaml(dump_yaml({"key": value}), name="x") == {"key": value}


def test_merge_keys_have_no_meaning():
    assert load("<<: {a: 1}") == {"<<": {"a": 1}}


def test_aliases_are_copied():
    tree = load("a: &x [1, 2]\nb: *x\nc: &y !t {k: v}\nd: *y")

    assert tree == {
        "a": [1, 2],
        "b": [1, 2],
        "c": Tagged("t", {"k": "v"}),
        "d": Tagged("t", {"k": "v"}),
    }
    assert tree["a"] is not tree["b"]


def test_a_billion_laughs_take_no_memory():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]" for i in range(12)]

    tracemalloc.start()
    with pytest.raises(FormatError, match="aliases unfold beyond measure"):
        load("\n".join(lines))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 10_000_000


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "a:\n"])
def test_endless_nesting_is_refused_early(opening: str):
    text = opening * 20_000 if opening != "a:\n" else _staircase(300)

    with pytest.raises(FormatError, match=f"deeper than {MAX_DEPTH} levels"):
        load(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "no valid YAML"),
        ("a: &x [*x]", "alias 'x' names nothing before it in line 1"),
        ("a: *nothing", "alias 'nothing' names nothing"),
        ("a: 1\na: 2", "'a' is there twice in line 2"),
        ("{[1]: 2}", "a key is no scalar"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: " + "9" * 5000, "4300 digits"),
        ('a: "\\U99999999"', "no valid YAML"),
        ('a: "\\ud800"', r"surrogate|no valid YAML"),
        ("a: \x01", "no valid YAML"),
    ],
)
def test_wrong_documents_are_refused_by_name_and_reason(text: str, reason: str):
    with pytest.raises(FormatError, match=reason) as caught:
        load(text)

    assert caught.value.kind is ErrorKind.CONFIG_DESERIALIZATION
    assert str(caught.value).startswith("config.yaml: ")


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(FormatError, match="no valid YAML"):
        load_yaml(b"a: \xff", name="config.yaml")


def test_large_documents_are_refused_unread():
    with pytest.raises(FormatError, match=f"more than {MAX_BYTES}"):
        load_yaml(b"#" * (MAX_BYTES + 1), name="config.yaml")


def test_long_lines_and_keys_come_back():
    tree = {"k" * 500: "word " * 100, "list": [{"a": "b" * 2000}]}

    assert load_yaml(dump_yaml(tree), name="x") == tree


def _staircase(depth: int) -> str:
    return "".join(f"{' ' * i}a:\n" for i in range(depth))


@pytest.mark.parametrize(
    ("text", "values"), [("", []), ("a: 1", [{"a": 1}]), ("--- 1\n---\n--- [2]\n", [1, None, [2]])]
)
def test_a_stream_has_any_number_of_documents(text: str, values: list[Any]):
    assert load_yaml_stream(text.encode(), name="stream.yaml") == values


def test_anchors_end_with_their_document():
    with pytest.raises(FormatError, match=r"stream\.yaml: alias 'x' names nothing|no valid YAML"):
        load_yaml_stream(b"--- &x 1\n--- *x\n", name="stream.yaml")
