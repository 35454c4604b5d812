from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig
from icestream.model.path_weights import LocationWeights, heaviest_folders, prefixes_of_depth
from icestream.model.prefix_advice import AdviceLimits, PrefixAdvice, advise, find_template

ARCHIVE = "s3://climate-archive/reanalysis/hourly"
EVERYTHING = AdviceLimits(min_bytes_saved=1)


def weights_of(
    locations: Sequence[str], *, stored: Sequence[str] | None = None, copies: int = 1
) -> LocationWeights:
    n = len(locations)
    return LocationWeights(
        pa.array(locations, pa.large_string()),
        pa.array(stored or locations, pa.large_string()),
        np.full(n, 10, np.int64),
        np.full(n, copies, np.int64),
    )


def places(advice: PrefixAdvice) -> list[str]:
    return [share.container.key for share in advice.proposals]


def test_one_folder_of_many_objects_is_proposed() -> None:
    locations = [f"{ARCHIVE}/t2m/c/0/{i}" for i in range(100)]

    advice = advise(weights_of(locations), limits=EVERYTHING)

    (share,) = advice.shares
    assert (share.container.url_prefix, share.container.name) == (f"{ARCHIVE}/t2m/c/0/", "t2m")
    assert (share.is_new, share.locations, share.references) == (True, 100, 1000)
    assert share.bytes_before == advice.bytes_before == sum(map(len, locations))
    assert share.bytes_after == advice.bytes_after == sum(len(f"vcc://t2m/{i}") for i in range(100))


def test_heavier_folders_come_before_lighter_ones() -> None:
    many = [f"{ARCHIVE}/t2m/{i:04d}.nc" for i in range(500)]
    few = [f"gs://maps/world/tiles/{i}.tif" for i in range(20)]

    both = advise(weights_of(few + many), limits=EVERYTHING)
    one = advise(weights_of(few + many), limits=AdviceLimits(max_containers=1, min_bytes_saved=1))

    assert places(both) == [f"{ARCHIVE}/t2m/", "gs://maps/world/tiles/"]
    assert places(one) == [f"{ARCHIVE}/t2m/"]
    assert isinstance(both.proposals[1].container.store, ObjectStoreConfig.Gcs)


def test_there_are_never_more_proposals_than_asked_for() -> None:
    locations = [f"s3://bucket-{i}/some/long/folder/{j}.nc" for i in range(20) for j in range(5)]

    for count in (1, 3, 20):
        limits = AdviceLimits(max_containers=count, min_bytes_saved=1)
        assert len(advise(weights_of(locations), limits=limits).proposals) == count
    with pytest.raises(InvalidInputError, match="at least one"):
        AdviceLimits(max_containers=0)


def test_what_saves_too_little_is_not_proposed() -> None:
    locations = [f"{ARCHIVE}/t2m/{i}.nc" for i in range(10)]

    assert advise(weights_of(locations), limits=AdviceLimits(min_bytes_saved=10_000)).shares == ()
    assert advise(weights_of(["s3://b/x", "s3://b/y"]), limits=EVERYTHING).shares == ()
    assert advise(weights_of([]), limits=EVERYTHING) == PrefixAdvice((), 0, 0)


def test_texts_that_many_manifests_hold_weigh_more() -> None:
    locations = [f"{ARCHIVE}/t2m/{i}.nc" for i in range(10)]

    once = advise(weights_of(locations), limits=EVERYTHING)
    often = advise(weights_of(locations, copies=7), limits=EVERYTHING)

    assert often.bytes_saved == 7 * once.bytes_saved > 0


def test_names_come_from_the_folder_and_are_not_used_twice() -> None:
    locations = [
        f"s3://bucket-{a}/very/long/path/{name}/{i:03d}.nc"
        for a in "xy"
        for name in ("era5_single-levels of the world", "2020")
        for i in range(50)
    ]
    existing = VirtualChunkContainer.of(prefix="s3://old/", name="era5-single")

    advice = advise(weights_of(locations), [existing], EVERYTHING)

    names = [share.container.name for share in advice.proposals]
    assert sorted(map(str, names)) == ["era5-single-2", "era5-single-3", "path", "path-2"]


def test_a_container_that_exists_is_not_proposed_but_counted() -> None:
    locations = [f"{ARCHIVE}/t2m/{i:04d}.nc" for i in range(100)]
    existing = VirtualChunkContainer.of(prefix=f"{ARCHIVE}/t2m/", name="t2m")

    advice = advise(weights_of(locations), [existing], EVERYTHING)

    assert advice.proposals == ()
    (share,) = advice.shares
    assert (share.container.name, share.is_new) == ("t2m", False)
    assert advice.bytes_after == 100 * len("vcc://t2m/0000.nc")


def test_locations_that_are_relative_already_save_nothing_more() -> None:
    locations = [f"{ARCHIVE}/t2m/{i:04d}.nc" for i in range(100)]
    stored = [f"vcc://t2m/{i:04d}.nc" for i in range(100)]
    existing = VirtualChunkContainer.of(prefix=f"{ARCHIVE}/t2m/", name="t2m")

    advice = advise(weights_of(locations, stored=stored), [existing], EVERYTHING)

    assert advice.proposals == ()
    assert advice.bytes_saved == 0


def test_a_deeper_container_inherits_how_the_outer_one_is_reached() -> None:
    locations = [f"{ARCHIVE}/{'long-' * 10}name/{i:04d}.nc" for i in range(100)]
    existing = VirtualChunkContainer.of(
        prefix=f"{ARCHIVE}/", name="hourly", region="eu-west-3", anonymous=True
    )

    (share,) = advise(weights_of(locations), [existing], EVERYTHING).proposals

    assert share.container.store == existing.store
    assert share.container.url_prefix == f"{ARCHIVE}/{'long-' * 10}name/"


def test_places_that_nobody_knows_how_to_reach_are_left_out() -> None:
    locations = [f"models/a/long/path/of/folders/{i}.nc" for i in range(100)]
    models = VirtualChunkContainer.of(prefix="models", object_store="s3", name="m")

    assert advise(weights_of(locations), limits=EVERYTHING).proposals == ()
    (share,) = advise(weights_of(locations), [models], EVERYTHING).proposals
    assert share.container.url_prefix == "models/a/long/path/of/folders/"


def test_malformed_locations_do_no_harm() -> None:
    good = [f"{ARCHIVE}/t2m/{i}.nc" for i in range(50)]
    bad = ["", "s3://", "s3://b//x", f"{ARCHIVE}/t2m/../x", "/a/b", "vcc://lost/x", "nothing"]

    advice = advise(weights_of(good + bad), limits=EVERYTHING)

    assert places(advice) == [f"{ARCHIVE}/t2m/"]
    assert advice.bytes_before - advice.bytes_after == 50 * (
        len(f"{ARCHIVE}/t2m/") - len("vcc://t2m/")
    )


# -- templates ------------------------------------------------------------------------------------


def test_the_template_of_the_design_is_found() -> None:
    locations = [
        f"s3://some-bucket/some-prefix/{i}-analysis-output-for-model-abc.nc" for i in range(1, 30)
    ]
    limits = AdviceLimits(min_bytes_saved=1, templates=True)

    (share,) = advise(weights_of(locations), limits=limits).proposals

    template = "s3://some-bucket/some-prefix/{}-analysis-output-for-model-abc.nc"
    assert share.container.url_template == template
    assert share.bytes_after == sum(len(f"vcc://some-prefix/{i}") for i in range(1, 30))


@pytest.mark.parametrize(
    ("rests", "expected"),
    [
        (["run-1/a.nc", "run-2/b.nc"], "run-{}/{}.nc"),
        (["2020/t-2020.nc", "2021/t-2021.nc"], "{}/t-{}.nc"),
        (["file1.nc", "file12.nc"], "file{}.nc"),
        (["v1/x.nc", "v1/y.nc"], "v1/{}.nc"),
        (["abcd.nc", "abxy.nc"], "{}.nc"),
        (["0/0/1", "0/1/0"], "0/{}/{}"),
        (["0/0/1", "1/1/0"], None),
        (["a.nc", "b/c.nc"], None),
        (["a b.nc", "c d.nc"], None),
        (["a%20b.nc", "c%20d.nc"], None),
        (["x//a.nc", "x//b.nc"], None),
        (["only-one.nc"], None),
        (["x", "x-more.nc"], None),
    ],
)
def test_templates_keep_whole_words_and_numbers(rests: list[str], expected: str | None) -> None:
    prefix = "s3://bucket/folder/"
    locations = pa.array([prefix + rest for rest in rests], pa.large_string())

    found = find_template(prefix, locations)

    assert found == (expected and prefix + expected)


# -- the trie -------------------------------------------------------------------------------------


def test_folders_hold_the_sums_of_what_is_below_them() -> None:
    weights = LocationWeights(
        *(pa.array(["s3://b/x/1", "s3://b/x/y/2", "file:///d/e", "m/n/o"], pa.large_string()),) * 2,
        references=np.array([1, 2, 4, 8]),
        copies=np.array([1, 1, 2, 3]),
    )

    folders = {f.path: (f.references, f.copies) for f in heaviest_folders(weights, 100)}

    assert folders == {
        "s3://b/": (3, 2),
        "s3://b/x/": (3, 2),
        "s3://b/x/y/": (2, 1),
        "file:///d/": (4, 2),
        "m/": (8, 3),
        "m/n/": (8, 3),
    }
    assert heaviest_folders(weights, 1)[0].path in {"s3://b/x/", "file:///d/"}


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (1, ["s3://b/", "s3://b/", "file:///d/", "m/", "lonely", "http://h:80/"]),
        (2, ["s3://b/x/", "s3://b/", "file:///d/e/", "m/n/", "lonely", "http://h:80/"]),
        (9, ["s3://b/x/y/", "s3://b/", "file:///d/e/", "m/n/", "lonely", "http://h:80/"]),
    ],
)
def test_prefixes_end_at_a_depth_or_at_the_last_folder(depth: int, expected: list[str]) -> None:
    locations = ["s3://b/x/y/1", "s3://b/2", "file:///d/e/f", "m/n/o", "lonely", "http://h:80/x"]

    found = prefixes_of_depth(pa.array(locations, pa.large_string()), depth)

    assert found.to_pylist() == expected
