import pytest

from icestream.errors import InvalidInputError
from icestream.model.templates import UrlTemplate, relative_location

MODEL_ABC = UrlTemplate("s3://some-bucket/some-prefix/{}-analysis-output-for-model-abc.nc")
OUTPUT = UrlTemplate("some-bucket/some-prefix/output/{}/{}.nc", ("2020", "mean"))


def test_the_segments_fill_the_placeholders_in_order():
    assert (
        MODEL_ABC.fill(["1"]) == "s3://some-bucket/some-prefix/1-analysis-output-for-model-abc.nc"
    )
    assert OUTPUT.fill(["2021", "max"]) == "some-bucket/some-prefix/output/2021/max.nc"


@pytest.mark.parametrize(
    ("segments", "filled"),
    [
        ([], "2020/mean"),
        (["2021"], "2021/mean"),
        (["", "max"], "2020/max"),
        (["", ""], "2020/mean"),
        (["2021", "max", "surplus", "more"], "2021/max"),
    ],
)
def test_missing_and_empty_segments_take_the_defaults_and_surplus_ones_are_ignored(
    segments: list[str], filled: str
):
    assert OUTPUT.fill(segments) == f"some-bucket/some-prefix/output/{filled}.nc"


@pytest.mark.parametrize("defaults", [(), (None,), ("a", None)])
def test_a_placeholder_with_neither_argument_nor_default_is_an_error(
    defaults: tuple[str | None, ...],
):
    template = UrlTemplate("s3://b/{}/{}", defaults)

    with pytest.raises(InvalidInputError, match=r"placeholder 2 of the template .* has neither"):
        template.fill(["x"])


def test_an_encoded_slash_is_a_slash_inside_of_an_argument():
    assert OUTPUT.fill(["a%2Fb", "c%2fd"]) == "some-bucket/some-prefix/output/a/b/c/d.nc"
    assert OUTPUT.fill(["a%252Fb"]) == "some-bucket/some-prefix/output/a%252Fb/mean.nc"


def test_defaults_are_texts_that_are_encoded_for_the_url():
    assert UrlTemplate("s3://b/{}", ("a b/100%?",)).fill([]) == "s3://b/a%20b/100%25%3F"


@pytest.mark.parametrize(
    ("arguments", "location"),
    [
        ([], "vcc://m/"),
        (["a", "b"], "vcc://m/a/b"),
        ([None, "b"], "vcc://m//b"),
        (["a", None], "vcc://m/a/"),
        (["a/b"], "vcc://m/a%2Fb"),
        (["100%", "?#", "é"], "vcc://m/100%25/%3F%23/%C3%A9"),
        (["a%2Fb"], "vcc://m/a%252Fb"),
    ],
)
def test_arguments_become_the_segments_of_a_relative_location(
    arguments: list[str | None], location: str
):
    assert relative_location("m", arguments) == location


@pytest.mark.parametrize("argument", ["", 3, b"x"])
def test_what_could_not_be_told_from_a_default_is_no_argument(argument: object):
    with pytest.raises(InvalidInputError, match="give texts, or None for the default"):
        relative_location("m", [argument])


@pytest.mark.parametrize(
    ("location", "arguments"),
    [
        ("some-bucket/some-prefix/output/2021/max.nc", ("2021", "max")),
        ("some-bucket/some-prefix/output/2021/a%20b.nc", ("2021", "a b")),
        ("some-bucket/some-prefix/output/2021/a/b.nc", ("2021", "a/b")),
        ("some-bucket/some-prefix/output/2021/max.hdf", None),
        ("some-bucket/some-prefix/output//max.nc", None),
        ("other-bucket/some-prefix/output/2021/max.nc", None),
    ],
)
def test_a_location_gives_back_the_arguments(location: str, arguments: tuple[str, ...] | None):
    assert OUTPUT.match(location) == arguments


def test_a_template_matches_its_scheme_by_any_name():
    assert UrlTemplate("gs://b/{}.nc").match("gcs://b/x.nc") == ("x",)


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("s3://b/p/{}-a.nc", "s3://b/p/"),
        ("s3://b/run-{}/x", "s3://b/"),
        ("s3://{}/x", "s3://"),
        ("bucket/{}", "bucket/"),
    ],
)
def test_the_prefix_is_the_folder_that_holds_every_url(template: str, prefix: str):
    assert UrlTemplate(template).prefix == prefix
    assert list(UrlTemplate(template).faults()) == []


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (UrlTemplate("s3://b/x"), "no placeholder"),
        (UrlTemplate("s3://b/{}/{name}"), "a brace"),
        (UrlTemplate("{}/x"), "does not begin with a folder"),
        (UrlTemplate("s3://b/{}", ("a", "b")), "2 defaults for 1 placeholders"),
        (UrlTemplate("s3://b/{}", ("",)), "an empty default"),
        (UrlTemplate("s3://b/../{}"), "'.' or '..'"),
        (UrlTemplate("vcc://b/{}"), "relative"),
        (UrlTemplate("s3://u@b/{}"), "user name"),
    ],
)
def test_faults_of_templates_are_named(template: UrlTemplate, reason: str):
    assert any(reason in fault for fault in template.faults())
