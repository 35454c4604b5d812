"""Locations: a pool means what its locations mean one by one, and none leaves its container."""

from collections.abc import Callable

import pyarrow as pa
from hypothesis import assume, example, given
from hypothesis import strategies as st

from icestream.errors import AccessError, InvalidInputError
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.location_pools import are_plain, canonical_texts, covered, spelled_texts
from icestream.model.locations import (
    canonical_location,
    covers,
    location_fault,
    prefix_fault,
    spelled,
)
from icestream.model.templates import UrlTemplate, relative_location

_PARTS = st.sampled_from(
    [
        *["/", "//", ".", "..", "%2e", "%2F", "%5c", "\\", "%", "%25", "%20", "%c3%a9", "%ff"],
        *["a", "b", "x.nc", "é", "@", "?", "#", ":", " ", "\0", "\n", "%00", "%0", "%c3", "{}"],
    ]
)
_BEGINNINGS = st.sampled_from(
    [
        *[
            "s3://",
            "S3://",
            "gs://",
            "gcs://",
            "az://",
            "abfs://",
            "https://",
            "http://",
            "HTTPS://",
        ],
        *["file:///", "file://", "file://localhost/", "FILE://localhost/", "FILE:///", "models://"],
        *["models/", "", "/", "vcc://", "vcc://n/", "VCC://t/", "tigris://", "Mo://", "s3://b/"],
    ]
)
locations = st.builds(
    lambda beginning, parts: beginning + "".join(parts), _BEGINNINGS, st.lists(_PARTS, max_size=7)
)
tame_locations = st.builds(
    lambda beginning, segments: beginning + "/".join(segments),
    st.sampled_from(
        [
            *["s3://b/", "S3://b/", "s3://a/", "gs://a/", "gcs://a/", "az://a/", "https://a/"],
            *["file:///a/", "FILE://localhost/a/", "models/", "models://a/", "tigris://b/"],
        ]
    ),
    st.lists(
        st.sampled_from(["a", "b", "x.nc", "é", "%20", "a b", "%c3%a9", ".x", "@", "x%25", "a-b"]),
        min_size=1,
        max_size=4,
    ),
)
prefixes = st.sampled_from(
    [
        *["s3", "s3://", "s3://a", "s3://b/", "s3://b/a", "s3://b/a/", "gs", "gcs://a/", "az://a"],
        *["models", "models/", "models/a", "models://a/", "https://a", "file:///a", "file:///a/"],
    ]
)

NAMED = VirtualChunkContainer.of(name="n", prefix="s3://b/")
TEMPLATE = VirtualChunkContainer.of(
    name="t",
    object_store="s3",
    url_template="s3://b/a/{}-{}",
    default_template_arguments=["d", "e"],
)
CONTAINERS = ContainerSet.of(
    [
        NAMED,
        TEMPLATE,
        VirtualChunkContainer.of(prefix="s3://b/a"),
        VirtualChunkContainer.of(name="m", prefix="models", object_store="gcs"),
        VirtualChunkContainer.of(name="g", prefix="gs://a/"),
    ],
    persisted=[NAMED],
)


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(st.lists(locations, max_size=8))
@example(["s3://b/%ff", "s3://b/%c3%a9", "s3://b/%c3", "%"])
@example(["s3://b/%4", "1s3://b/x"])
def test_a_pool_has_the_canonical_forms_and_faults_of_its_locations(texts: list[str]):
    proper = spelled_texts(column(texts))
    canonical, faulty = canonical_texts(proper)

    assert proper.to_pylist() == [spelled(text) for text in texts]
    assert faulty.tolist() == [location_fault(text) is not None for text in texts]
    for text, found, is_faulty in zip(texts, canonical.to_pylist(), faulty, strict=True):
        assert is_faulty or found == canonical_location(text)


@given(locations | tame_locations)
def test_plain_locations_are_canonical_and_without_fault(location: str):
    if are_plain(column([location])):
        assert location_fault(location) is None
        assert canonical_texts(column([location, "?"]))[0][0].as_py() == location


@given(
    locations | tame_locations | st.text("ab./%?\\\x01\x7f é", max_size=6).map("s3://b/{}".format),
    st.sampled_from([0, 100, 299]),
)
@example("s3://b/", 100)
@example("s3://b/a/", 299)
@example("s3://b/a//b", 100)
@example("s3://b/.a", 100)
@example("s3://b/a/.b", 299)
@example("https://b/a", 100)
def test_a_large_pool_is_plain_if_each_of_its_locations_is(location: str, position: int):
    texts = [f"s3://b/some/long/name-{number}.nc" for number in range(300)]
    texts[position] = location

    assert are_plain(column(texts)) == are_plain(column([location]))


@given(prefixes, tame_locations)
def test_a_pool_is_covered_like_its_locations(prefix: str, location: str):
    canonical = column([canonical_location(location)])

    assert covered(prefix, canonical).tolist() == [covers(prefix, location)]


def outcome(convert: Callable[[], object]) -> object:
    try:
        return convert()
    except (InvalidInputError, AccessError) as error:
        return type(error)


@given(locations | tame_locations, st.sampled_from([None, True, False]), st.booleans())
@example("vcc://", None, False)
def test_a_pool_is_stored_like_its_locations(
    location: str,
    relative: bool | None,  # noqa: FBT001  given by hypothesis
    validate: bool,  # noqa: FBT001  given by hypothesis
):
    pool = pa.chunked_array([column([location])])

    many = outcome(
        lambda: CONTAINERS.stored_texts(pool, relative=relative, validate=validate).to_pylist()
    )
    one = outcome(lambda: [CONTAINERS.stored_text(location, relative=relative, validate=validate)])

    if isinstance(one, list) or isinstance(many, list):
        assert many == one


@given(tame_locations)
def test_what_is_stored_leads_where_the_location_leads(location: str):
    assume(CONTAINERS.find(location) is not None)
    stored = CONTAINERS.stored_text(location)

    assert CONTAINERS.resolve(stored).address == CONTAINERS.resolve(location).address
    assert CONTAINERS.stored_text(stored) == stored


@given(st.sampled_from(["n", "t", "m", "g"]), st.lists(_PARTS, max_size=7))
def test_no_relative_location_leaves_its_container(name: str, parts: list[str]):
    place = outcome(lambda: CONTAINERS.resolve(f"vcc://{name}/{''.join(parts)}"))
    assume(not isinstance(place, type))
    container = CONTAINERS.get_named(name)

    resolved = CONTAINERS.resolve(f"vcc://{name}/{''.join(parts)}")
    canonical = canonical_location(resolved.location)
    assert covers(container.url_prefix, resolved.location)
    assert not {".", ".."} & set(canonical.replace("\\", "/").split("/"))


@given(
    st.lists(st.none() | st.text(min_size=1, max_size=4), min_size=2, max_size=4),
    st.sampled_from(["s3://b/{}/{}.nc", "models/{}-{}", "gs://b/x{}/{}"]),
)
def test_arguments_of_a_template_come_back(arguments: list[str | None], text: str):
    template = UrlTemplate(text, ("d", "e/f"))
    path = relative_location("t", arguments).removeprefix("vcc://t/")
    url = template.fill(path.split("/"))
    assume(location_fault(url) is None)

    found = template.match(url)

    assert found is not None
    filled = UrlTemplate(text).fill(relative_location("t", found)[len("vcc://t/") :].split("/"))
    assert canonical_location(filled) == canonical_location(url)


@given(locations)
def test_a_prefix_without_fault_covers_what_is_below_it(prefix: str):
    assume(prefix_fault(prefix) is None)
    below = prefix if prefix.endswith("/") else f"{prefix}/"
    below = f"{prefix}://b/" if "/" not in prefix else below

    assert covers(prefix, f"{below}y/z")
