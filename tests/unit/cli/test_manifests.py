from datetime import UTC, date, datetime

import pytest
import zarr

from icestream.codec.configs import decode_config_yaml
from icestream.model.manifest_sets import ChunkManifests, ChunkRange, ManifestRule, ManifestSet
from icestream.repository.repository import Repository
from icestream.storage.factories import local_filesystem_storage

PLAN = """\
appends-per-day: 24
arrays:
  - path: /temperature
    chunks: [8760, 100]
    dimension-names: [time, cell]
    append-dimension: time
    chunks-per-append: 1
    count: 3
  - path: /cell
    chunks: [1]
"""


@pytest.fixture
def place(tmp_path) -> str:
    """A repository whose array /data grows, with two coordinates; five chunks at the end."""
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "growing")))
    repo.config.chunk_manifests = ChunkManifests(
        (ManifestSet("small", 100),), (ManifestRule("small", metadata_chunks=ChunkRange(0, 2)),)
    )
    repo.save_config()
    repo = Repository.open(local_filesystem_storage(str(tmp_path / "growing")))
    with repo.transaction("main", message="first step") as store:
        group = zarr.open_group(store, mode="a")
        for name, dimension in {"data": "time", "x": "x", "y": "y"}.items():
            array = group.create_array(
                name, shape=(1,), chunks=(1,), dtype="i4", dimension_names=[dimension]
            )
            array[:] = 1
    for length in range(2, 6):
        with repo.transaction("main", message=f"step {length}") as store:
            array = zarr.open_array(store, path="data")
            array.resize((length,))
            array[-1:] = length
    return str(tmp_path / "growing")


def test_manifests_are_listed_with_their_sets_and_arrays(run, place) -> None:
    rows = run("manifests", "list", place, "-o", "json").data

    assert [(row["set"], row["arrays"], row["references"]) for row in rows] == [
        ("default", 1, 5),
        ("small", 2, 2),
    ]
    assert all(row["bytes"] > 100 for row in rows)
    named = run("manifests", "list", place, "--paths", "-o", "json").data
    assert [row["arrays"] for row in named] == [["/data"], ["/x", "/y"]]
    assert run("manifests", "list", place).stdout.splitlines()[0].split() == [
        "MANIFEST",
        "SET",
        "ARRAYS",
        "REFERENCES",
        "BYTES",
    ]


def test_a_manifest_of_arrays_for_several_sets_has_none(run, place) -> None:
    """The rules in force tell, not those that it was packed by."""
    repo = Repository.open(local_filesystem_storage(place))
    repo.config.chunk_manifests = ChunkManifests(
        (ManifestSet("xs", 100),), (ManifestRule("xs", path="/x"),)
    )
    repo.save_config()

    rows = run("manifests", "list", place, "-o", "json").data

    assert [row["set"] for row in rows] == ["default", None]
    assert run("manifests", "list", place).stdout.splitlines()[2].split()[1] == "-"


def test_advice_measures_growth_from_the_last_commits(run, place) -> None:
    """Four appends of one chunk in less than a day."""
    advice = run("manifests", "advise", place, "--years", "2", "-o", "json").data

    assert advice["now"]["references"] == 7
    assert advice["now"]["manifests"] == 2
    assert advice["later"]["references"] == 7 + 4 * 2 * 365
    assert advice["now"]["commit_manifests"] == 1
    assert advice["now"]["sets"]["small"]["manifests"] == 1
    assert {row["path"] for row in advice["arrays"]} == {"/data", "/x", "/y"}
    assert advice["warnings"] == []


def test_advice_takes_growth_from_the_command_line(run, place) -> None:
    advice = run(
        *("manifests", "advise", place, "main", "-o", "json"),
        *("--appends-per-day", "1000", "--append-dimension", "time"),
        *("--chunks-per-append", "100", "--max-manifest-size", "50000"),
    ).data

    assert advice["later"]["references"] == 7 + 365 * 1000 * 100
    # the plan in force splits at a million references
    assert advice["later"]["commit_references"] == 1_000_000
    assert advice["proposed"]["commit_references"] == 50_000
    assert advice["proposed"]["chunk_read_bytes"] < advice["later"]["chunk_read_bytes"]


def test_advice_warns_of_limits_that_come_near(run, place) -> None:
    """A thousand commits a day are a million in less than three years."""
    rate = ("--appends-per-day", "1000", "--append-dimension", "time")

    advice = run("manifests", "advise", place, *rate, "--years", "3", "-o", "json").data
    text = run("manifests", "advise", place, *rate, "--years", "3").stdout

    (warning,) = advice["warnings"]
    assert warning["limit"] == "snapshots of the history, icechunk up to 2.1"
    assert warning["value"] == 6
    reached = date.fromisoformat(warning["reached_on"]) - datetime.now(UTC).date()
    assert reached.days in {998, 999, 1000}
    assert f"reached on {warning['reached_on']}" in " ".join(text.split())


def test_advice_is_text_with_a_configuration_that_can_be_loaded(run, place, tmp_path) -> None:
    text = run("manifests", "advise", place, "--appends-per-day", "5").stdout

    assert text.splitlines()[0].split() == [
        "now",
        "in",
        "1",
        "years",
        "in",
        "1",
        "years,",
        "as",
        "proposed",
    ]
    document = text.partition("proposal:\n")[2]
    config = decode_config_yaml(document.encode(), name="proposal")
    assert config.chunk_manifests is not None
    (tmp_path / "proposal.yaml").write_text(document)
    assert run("config", "load", place, str(tmp_path / "proposal.yaml")).exit_code == 0


def test_a_planned_repository_is_advised_on(run, tmp_path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)

    advice = run("manifests", "plan", str(tmp_path / "plan.yaml"), "-o", "json").data

    assert advice["now"]["references"] == 3 * 876_000 + 1
    assert advice["later"]["references"] == 2 * 3 * 876_000 + 1
    assert advice["proposed"]["commit_references"] < advice["later"]["commit_references"]
    assert "/temperature2" in str(advice["proposal"]["manifest"]["splitting"])


def test_a_plan_can_say_what_to_compare_with_and_come_from_standard_input(run) -> None:
    unsplit = "chunk-manifests: {sets: [default: {split-oversized: false}]}\n"

    advice = run("manifests", "plan", "-", "-o", "json", "--years", "50", input=PLAN + unsplit).data

    # without a set of their own, small arrays share a manifest with large ones
    assert advice["now"]["commit_references"] == 3 * (876_000 + 100) + 1
    limits = {warning["limit"]: warning for warning in advice["warnings"]}
    kept = limits["references of one manifest that icechunk keeps in memory"]
    assert kept["value"] == 876_001
    assert kept["reached_on"] > "2030"
    assert kept["reached_on_as_proposed"] is None


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("arrays: 3", "arrays is not a list"),
        ("array: []", "there is no array; known are"),
        ("[]", "is not a mapping"),
        ("a: [", "no valid YAML"),
        ("arrays: [{path: x, chunks: [1]}]", "arrays[0].path is not an absolute path"),
        ("arrays: [{path: /x, chunks: 1}]", "arrays[0].chunks is not a list"),
        ("arrays: [{path: /x, chunks: [-1]}]", "arrays[0].chunks is not a list"),
        ("arrays: [{path: /x, chunks: [1], size: 3}]", "there is no size"),
        ("arrays: [{path: /x, chunks: [1], count: no}]", "count: 'no' is not a number"),
        (
            "arrays: [{path: /x, chunks: [1], dimension-names: [a, b]}]",
            "are not one name per dimension",
        ),
        (
            "arrays: [{path: /x, chunks: [1], append-dimension: time}]",
            "there is no dimension 'time'",
        ),
        ("appends-per-day: -1\narrays: []", "appends-per-day: -1 is not a number"),
        ("arrays: []\nchunk-manifests: {rules: [{target: x}]}", "there is no set 'x'"),
    ],
)
def test_a_faulty_plan_is_refused_by_name(run, plan, message) -> None:
    ran = run("manifests", "plan", "-", input=plan)

    assert ran.exit_code == 2
    assert message in " ".join(ran.stderr.split())
