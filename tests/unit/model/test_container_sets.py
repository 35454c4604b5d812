import pickle

import pyarrow as pa
import pytest
from tests.unit.model.test_locations import ATTACKS

from icestream.errors import AccessError, ErrorKind, InvalidInputError
from icestream.model.container_sets import ContainerSet, default_containers
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import ObjectAddress
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.model.platforms import Platform

of = VirtualChunkContainer.of


def only(*containers: VirtualChunkContainer) -> ContainerSet:
    return ContainerSet.of(containers, defaults=False, persisted=containers)


def pool_of(*locations: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(locations, pa.large_string())])


# -- set_virtual_ref: the examples of the design ---------------------------------------------------


@pytest.mark.parametrize(
    ("location", "prefix"),
    [
        ("s3://foo/bar.nc", "s3"),
        ("s3://foo/bar.nc", "s3://"),
        ("s3://foo/bar.nc", "s3://foo"),
        ("s3://foo/bar.nc", "s3://foo/bar.nc"),
        ("tigris://foo/bar.nc", "tigris"),
        ("models://foo/bar.nc", "models"),
    ],
)
def test_a_location_below_a_prefix_is_stored(location: str, prefix: str):
    platform = "s3" if prefix == "models" else None
    containers = only(of(prefix=prefix, object_store=platform))

    assert containers.stored_text(location) == location
    assert containers.stored_texts(pool_of(location)).to_pylist() == [location]
    assert containers.uncovered(pool_of(location)).to_pylist() == []


@pytest.mark.parametrize(
    ("location", "containers"),
    [
        ("s3://foo/bar.nc", only()),
        ("gcs://foo/bar.nc", only(of(prefix="s3"))),
    ],
)
def test_a_location_below_no_prefix_is_stored_only_without_validation(
    location: str, containers: ContainerSet
):
    with pytest.raises(InvalidInputError, match=r"covers .*foo/bar\.nc; add one with") as caught:
        containers.stored_text(location)
    assert caught.value.kind is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    with pytest.raises(InvalidInputError, match="no virtual chunk container covers"):
        containers.stored_texts(pool_of(location))

    assert containers.stored_text(location, validate=False) == location
    assert containers.stored_texts(pool_of(location), validate=False).to_pylist() == [location]
    assert containers.uncovered(pool_of(location)).to_pylist() == [0]


def test_containers_of_nested_prefixes_may_be_on_three_platforms():
    containers = only(
        of(prefix="models", object_store="s3"),
        of(prefix="models/dev", object_store="gcs"),
        of(prefix="models/prod", object_store="azure"),
    )

    found = [
        containers.resolve(location)
        for location in ("models/dev/x.nc", "models/prod/x.nc", "models/test/x.nc", "models://b/x")
    ]

    assert [place.container.platform for place in found] == [
        Platform.GCS,
        Platform.AZURE,
        Platform.S3,
        Platform.S3,
    ]
    assert found[0].address == ObjectAddress("", "models", "dev/x.nc")
    assert found[3].address == ObjectAddress("models", "b", "x")


def test_three_buckets_on_two_platforms_have_schemes_of_their_own():
    containers = ContainerSet.of(
        [
            of(name="modela", prefix="modela://virtual-a", object_store="gcs"),
            of(name="modelb", prefix="modelb://virtual-b", object_store="gcs"),
            of(name="modelc", prefix="modelc://virtual-c", object_store="s3"),
        ]
    )

    place = containers.resolve("modelb://virtual-b/x/y.nc")

    assert place.container.name == "modelb"
    assert place.address == ObjectAddress("modelb", "virtual-b", "x/y.nc")
    assert containers.find("modela://virtual-b/x") is None


# -- default containers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "name", "platform"),
    [
        ("s3://b/x", "s3", Platform.S3),
        ("gs://b/x", "gcs", Platform.GCS),
        ("gcs://b/x", "gcs", Platform.GCS),
        ("az://b/x", "azure", Platform.AZURE),
        ("abfs://b/x", "azure", Platform.AZURE),
        ("tigris://b/x", "tigris", Platform.TIGRIS),
        ("http://h/x", "http", Platform.HTTP),
        ("https://h/x", "https", Platform.HTTP),
    ],
)
def test_common_platforms_need_no_container(location: str, name: str, platform: Platform):
    container = ContainerSet.of([]).resolve(location).container

    assert (container.name, container.platform) == (name, platform)
    assert container.region is None
    assert ContainerSet.of([], defaults=False).find(location) is None


@pytest.mark.parametrize("location", ["file:///data/x", "models://b/x", "models/x", "ftp://h/x"])
def test_there_is_no_default_for_local_files_and_unknown_schemes(location: str):
    assert ContainerSet.of([]).find(location) is None


@pytest.mark.parametrize(
    "container",
    [
        of(prefix="s3://", region="sa-east-1"),
        of(prefix="s3", region="sa-east-1"),
        of(name="s3", prefix="s3://b/", region="sa-east-1"),
    ],
)
def test_a_container_with_the_name_or_prefix_of_a_default_replaces_it(
    container: VirtualChunkContainer,
):
    containers = ContainerSet.of([container])

    assert containers.resolve("s3://b/x").container.region == "sa-east-1"
    assert [d.name for d in containers.defaults] == ["gcs", "azure", "tigris", "http", "https"]


def test_defaults_are_never_relative_nor_found_by_name():
    containers = ContainerSet.of([], persisted=default_containers())

    assert containers.stored_text("s3://b/x") == "s3://b/x"
    with pytest.raises(AccessError, match="there are none"):
        containers.expand("vcc://s3/b/x")


def test_a_container_for_one_prefix_leaves_the_default_to_the_others():
    override = of(
        name="minio-override",
        prefix="s3://bucket/prefix/array",
        object_store="s3_compatible",
        endpoint_url="localhost:9000",
        allow_http=True,
    )
    containers = ContainerSet.of([override])

    assert containers.find("s3://bucket/prefix/array/c/0") == override
    assert containers.find("s3://bucket/prefix/array2/c/0") != override
    assert override.store == ObjectStoreConfig.S3Compatible(
        S3Options(endpoint_url="http://localhost:9000", allow_http=True)
    )


# -- relative locations ---------------------------------------------------------------------------

NAMED = of(name="n", prefix="s3://bucket/data/")


def test_a_location_in_a_stored_named_container_becomes_relative():
    containers = only(NAMED)

    assert containers.stored_text("s3://bucket/data/a/x.nc") == "vcc://n/a/x.nc"
    assert containers.expand("vcc://n/a/x.nc") == "s3://bucket/data/a/x.nc"
    assert containers.stored_text("s3://bucket/data/a/x.nc", relative=False) == (
        "s3://bucket/data/a/x.nc"
    )


@pytest.mark.parametrize(
    "container",
    [
        of(prefix="s3://bucket/data/"),
        of(name="n", prefix="s3://bucket/data"),
        of(name="n", prefix="s3://bucket"),
        of(name="n", prefix="s3"),
        of(name="n", prefix="s3://bucket/data/x.nc"),
        of(name="n", object_store="s3", url_template="s3://bucket/data/{}.nc"),
    ],
)
def test_a_location_in_any_other_container_stays_absolute(container: VirtualChunkContainer):
    assert only(container).stored_text("s3://bucket/data/x.nc") == "s3://bucket/data/x.nc"


def test_a_container_of_this_run_only_makes_nothing_relative_unless_asked():
    containers = ContainerSet.of([NAMED])

    assert containers.stored_text("s3://bucket/data/x") == "s3://bucket/data/x"
    assert containers.stored_text("s3://bucket/data/x", relative=True) == "vcc://n/x"


def test_a_stored_name_that_means_another_place_in_this_run_makes_nothing_relative():
    elsewhere = of(name="n", prefix="s3://copy/data/")
    containers = ContainerSet.of([elsewhere], persisted=[NAMED])

    assert containers.stored_text("s3://bucket/data/x") == "s3://bucket/data/x"
    assert containers.expand("vcc://n/x") == "s3://copy/data/x"


def test_a_stored_container_without_name_keeps_its_locations_absolute():
    containers = only(NAMED, of(prefix="s3://bucket/data/raw/"))

    assert containers.stored_text("s3://bucket/data/raw/x") == "s3://bucket/data/raw/x"
    assert containers.stored_text("s3://bucket/data/rawer/x") == "vcc://n/rawer/x"


def test_a_relative_location_is_read_where_a_container_of_this_run_covers_it():
    override = of(name="override", prefix="s3://bucket/data/a", object_store="minio")
    containers = ContainerSet.of([NAMED, override], persisted=[NAMED])

    assert containers.stored_text("s3://bucket/data/a/x") == "vcc://n/a/x"
    assert containers.resolve("vcc://n/a/x").container == override
    assert containers.resolve("vcc://n/b/x").container == NAMED


@pytest.mark.parametrize(
    ("prefix", "location"),
    [("gs://b/", "gcs://b/x"), ("gcs://b/", "gs://b/x"), ("S3://b/", "s3://b/x")],
)
def test_the_spelling_of_the_scheme_does_not_hinder_relative_locations(prefix: str, location: str):
    assert only(of(name="n", prefix=prefix)).stored_text(location) == "vcc://n/x"


def test_a_location_that_spells_the_prefix_otherwise_stays_absolute():
    containers = only(of(name="n", prefix="s3://b/my data/"))

    assert containers.stored_text("s3://b/my%20data/x") == "s3://b/my%20data/x"
    assert containers.resolve("s3://b/my%20data/x").container.name == "n"


def test_a_prefix_without_its_final_slash_resolves_relative_locations():
    containers = only(
        of(
            name="my-virtual-icechunk",
            prefix="s3://testbucket/my-repo/chunks",
            object_store="s3_compatible",
            region="us-east-1",
        )
    )

    place = containers.resolve("vcc://my-virtual-icechunk/4K2JE645QXEXJ8BFDX70")

    assert place.address == ObjectAddress("s3", "testbucket", "my-repo/chunks/4K2JE645QXEXJ8BFDX70")
    assert place.container.platform is Platform.S3_COMPATIBLE


def test_an_unknown_name_is_an_error_that_names_those_that_exist():
    containers = only(NAMED, of(name="m", prefix="gs://b/"))

    with pytest.raises(AccessError, match=r"is named 'other' \(names: m, n\)") as caught:
        containers.resolve("vcc://other/x")
    assert caught.value.kind is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    assert containers.uncovered(pool_of("vcc://n/x", "vcc://other/x")).to_pylist() == [1]
    assert containers.stored_text("vcc://other/x", validate=False) == "vcc://other/x"


def test_relative_locations_are_stored_as_they_are_given_or_made_absolute():
    containers = only(NAMED)

    assert containers.stored_text("VCC://n/x") == "vcc://n/x"
    assert containers.stored_text("vcc://n/x", relative=False) == "s3://bucket/data/x"


def test_what_cannot_be_relative_is_refused_when_it_is_asked_for():
    containers = ContainerSet.of([NAMED])

    with pytest.raises(InvalidInputError, match="s3://b/x cannot be stored relative"):
        containers.stored_text("s3://b/x", relative=True)
    with pytest.raises(InvalidInputError, match="s3://b/x and 1 other locations cannot be"):
        containers.stored_texts(
            pool_of("s3://bucket/data/y", "s3://b/x", "gs://b/x"), relative=True
        )


def test_a_location_without_container_is_an_error_that_names_the_call():
    with pytest.raises(AccessError, match=r"covers s3://b/x; add one with config.set_virtual"):
        only().resolve("s3://b/x")


# -- many locations -------------------------------------------------------------------------------

MIXED = (
    "s3://bucket/data/a.nc",
    "S3://bucket/data/b.nc",
    "vcc://n/c.nc",
    "gs://g/d.nc",
    "https://h/e.nc",
    "s3://bucket/data/f%20f.nc",
    "VCC://t/x%2Fy",
    "s3://bucket/other/g.nc",
)
TEMPLATE = of(
    name="t",
    object_store="s3",
    url_template="S3://t/{}-{}.nc",
    default_template_arguments=[None, "z"],
)


@pytest.mark.parametrize("relative", [None, False])
def test_a_pool_is_stored_like_its_locations_one_by_one(*, relative: bool | None):
    containers = ContainerSet.of(
        [NAMED, TEMPLATE, of(name="g", prefix="gcs://g/")], persisted=[NAMED]
    )

    stored = containers.stored_texts(pool_of(*MIXED), relative=relative).to_pylist()

    assert stored == [containers.stored_text(text, relative=relative) for text in MIXED]
    assert stored[0] == ("s3://bucket/data/a.nc" if relative is False else "vcc://n/a.nc")
    assert stored[6] == ("S3://t/x/y-z.nc" if relative is False else "vcc://t/x%2Fy")


def test_a_pool_in_which_nothing_changes_is_returned_itself():
    pool = pool_of("s3://b/x", "s3://b/y")

    assert ContainerSet.of([]).stored_texts(pool) is pool
    assert ContainerSet.of([]).stored_texts(pool, relative=False) is pool
    assert ContainerSet.of([]).expand_all(pool) is pool


def test_a_pool_in_parts_and_an_empty_one_are_stored_too():
    parts = pa.chunked_array([["s3://bucket/data/x"], ["s3://bucket/data/y"]], pa.large_string())
    small = pa.chunked_array([pa.array(["s3://bucket/data/x"])])

    assert only(NAMED).stored_texts(parts).to_pylist() == ["vcc://n/x", "vcc://n/y"]
    assert only(NAMED).stored_texts(parts[1:]).to_pylist() == ["vcc://n/y"]
    assert only(NAMED).stored_texts(small).to_pylist() == ["vcc://n/x"]
    assert len(only(NAMED).stored_texts(pa.chunked_array([], pa.large_string()))) == 0


def test_all_locations_are_listed_as_absolute_ones_but_for_those_of_unknown_names():
    containers = only(NAMED, TEMPLATE)

    expanded = containers.expand_all(pool_of("vcc://n/a", "vcc://t/1", "s3://b/x", "vcc://o/x"))

    assert expanded.to_pylist() == ["s3://bucket/data/a", "S3://t/1-z.nc", "s3://b/x", "vcc://o/x"]


def test_an_unknown_name_cannot_be_made_absolute():
    with pytest.raises(AccessError, match="is named 'o'"):
        only(NAMED).stored_texts(pool_of("vcc://n/x", "vcc://o/x"), relative=False, validate=False)


def test_the_first_malformed_location_is_named_with_its_fault():
    pool = pool_of("s3://bucket/data/x", "s3://b/../x", "s3://b/x%00")

    with pytest.raises(InvalidInputError, match=r"'s3://b/\.\./x and 1 other .* has the segment"):
        only(NAMED).stored_texts(pool, validate=False)
    assert only(NAMED).malformed(pool).to_pylist() == [1, 2]


# -- attacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", [location for location, _ in ATTACKS[:-1]])
def test_a_location_that_could_mean_another_place_is_neither_stored_nor_read(location: str):
    containers = ContainerSet.of([of(prefix="s3"), of(prefix="file:///data/")])

    with pytest.raises(InvalidInputError):
        containers.resolve(location)
    with pytest.raises(InvalidInputError):
        containers.stored_text(location, validate=False)
    assert containers.malformed(pool_of("s3://b/x", location)).to_pylist() == [1]


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../../secret",
        "a/../../secret",
        "..%2Fsecret",
        "%2e%2e/secret",
        ".%2e/secret",
        "a%2F..%2F..%2Fsecret",
        r"..\secret",
        "..%5csecret",
        "%00",
    ],
)
@pytest.mark.parametrize("name", ["n", "f", "w"])
def test_a_relative_location_cannot_leave_its_container(name: str, path: str):
    containers = ContainerSet.of(
        [
            NAMED,
            of(name="f", prefix="file:///data/public/"),
            of(name="w", prefix="https://h/public/"),
        ]
    )

    with pytest.raises(InvalidInputError):
        containers.resolve(f"vcc://{name}/{path}")
    with pytest.raises(InvalidInputError):
        containers.stored_text(f"vcc://{name}/{path}")
    assert containers.malformed(pool_of(f"vcc://{name}/{path}")).to_pylist() == [0]


@pytest.mark.parametrize(
    "location",
    [
        "vcc://s3:%2F%2Fevil/x",
        "vcc://n@evil/x",
        "vcc://n:80/x",
        "vcc://n%2F..%2Fx/y",
        "vcc://../x",
        "vcc://N/x",
        "vcc://n\0/x",
        "vcc://n?/x",
        r"vcc://n\x/y",
    ],
)
def test_an_odd_name_is_just_an_unknown_one(location: str):
    containers = only(NAMED)

    with pytest.raises(AccessError, match="no virtual chunk container is named"):
        containers.resolve(location)
    assert containers.uncovered(pool_of(location)).to_pylist() == [0]


@pytest.mark.parametrize("location", ["vcc://n", "vcc://", "vcc:///x"])
def test_a_relative_location_without_name_or_path_is_malformed(location: str):
    with pytest.raises(InvalidInputError, match="vcc://name/path"):
        only(NAMED).resolve(location)


@pytest.mark.parametrize("argument", ["..", "../../x", "a/../../..", "%2e%2e/..", "x\0"])
def test_the_argument_of_a_template_cannot_leave_its_prefix(argument: str):
    template = of(name="t", object_store="s3", url_template="s3://b/public/{}/x.nc")

    with pytest.raises(InvalidInputError):
        ContainerSet.of([template]).template_location("t", [argument])


def test_a_user_name_in_an_argument_is_refused():
    template = of(name="t", object_store="s3", url_template="s3://b-{}/x.nc")

    with pytest.raises(InvalidInputError, match="user name"):
        ContainerSet.of([template]).template_location("t", ["x@evil"])


# -- templates ------------------------------------------------------------------------------------


def test_a_template_is_filled_and_its_location_is_owned_by_its_container():
    containers = ContainerSet.of([TEMPLATE], persisted=[TEMPLATE])

    location = containers.template_location("t", ["x/y", None, "surplus"])
    place = containers.resolve(location)

    assert location == "vcc://t/x%2Fy//surplus"
    assert (place.container, place.location) == (TEMPLATE, "S3://t/x/y-z.nc")
    assert place.address == ObjectAddress("s3", "t", "x/y-z.nc")
    assert containers.match_template(place.location) == (TEMPLATE, ("x/y", "z"))


def test_a_template_without_scheme_is_filled_on_its_platform():
    template = of(
        name="model-output",
        object_store="s3",
        url_template="some-bucket/some-prefix/output/{}/{}.nc",
        default_template_arguments=["2020"],
    )
    containers = ContainerSet.of([template])

    place = containers.resolve(containers.template_location("model-output", [None, "max"]))

    assert place.container == template
    assert place.address == ObjectAddress("", "some-bucket", "some-prefix/output/2020/max.nc")


def test_a_template_covers_only_what_can_be_made_with_it():
    containers = ContainerSet.of([TEMPLATE], defaults=False)

    assert containers.find("s3://t/a-b.nc") == TEMPLATE
    assert containers.find("s3://t/ab.nc") is None
    assert containers.uncovered(pool_of("s3://t/a-b.nc", "s3://t/ab.nc")).to_pylist() == [1]


@pytest.mark.parametrize(
    ("name", "arguments", "error", "reason"),
    [
        ("other", ["x"], AccessError, "is named 'other'"),
        ("n", ["x"], InvalidInputError, "no url_template"),
        ("t", [], InvalidInputError, "placeholder 1"),
        ("t", [None, "x"], InvalidInputError, "placeholder 1"),
    ],
)
def test_what_cannot_fill_a_template_is_an_error_at_once(
    name: str, arguments: list[str | None], error: type[Exception], reason: str
):
    with pytest.raises(error, match=reason):
        only(NAMED, TEMPLATE).template_location(name, arguments)


def test_a_missing_argument_is_an_error_for_a_pool_too():
    with pytest.raises(InvalidInputError, match="placeholder 1 of the template"):
        only(TEMPLATE).stored_texts(pool_of("vcc://t/1", "vcc://t//2"))


def test_a_url_that_no_template_makes_has_no_match():
    assert only(NAMED, TEMPLATE).match_template("s3://bucket/data/x") is None


# -- the value ------------------------------------------------------------------------------------


def test_a_set_of_containers_pickles():
    containers = ContainerSet.of([NAMED, TEMPLATE], persisted=[NAMED])

    copy = pickle.loads(pickle.dumps(containers))

    assert copy == containers
    assert copy.stored_text("s3://bucket/data/x") == "vcc://n/x"


def test_later_changes_of_a_container_do_not_reach_the_set():
    container = of(name="n", prefix="s3://a/")
    containers = only(container)
    container.url_prefix = "s3://b/"

    assert containers.expand("vcc://n/x") == "s3://a/x"


def test_containers_that_break_the_rules_are_left_out():
    broken = VirtualChunkContainer("s3://b/", ObjectStoreConfig.LocalFileSystem("/"))

    assert ContainerSet.of([broken]).declared == ()
