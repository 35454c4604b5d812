import pytest
import zarr

from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.repository.repository import Repository
from icestream.storage.factories import local_filesystem_storage

PREFIX = "s3://bucket/some/long/folder/"
FILES = [f"{PREFIX}{i:04d}.nc" for i in range(40)]


@pytest.fixture
def place(tmp_path) -> str:
    """A repository whose array /x has two chunks in each of forty files."""
    repo = Repository.create(local_filesystem_storage(str(tmp_path / "virtual")))
    session = repo.writable_session("main")
    zarr.create_group(session.store).create_array("x", shape=(80,), chunks=(1,), dtype="i4")
    specs = [VirtualChunkSpec([i], FILES[i // 2], i % 2 * 10, 10) for i in range(80)]
    session.store.set_virtual_refs("x", specs)
    session.commit("references")
    repo.create_tag("v1", repo.lookup_branch("main"))
    return str(tmp_path / "virtual")


def test_containers_are_listed(run, place) -> None:
    assert run("sources", "list", place, "-o", "json").data == []

    repo = Repository.open(local_filesystem_storage(place))
    repo.config.set_virtual_chunk_container(VirtualChunkContainer.of(prefix=PREFIX, name="long"))
    repo.save_config()

    assert run("sources", "list", place, "-o", "json").data == [
        {"name": "long", "prefix": PREFIX, "platform": "s3", "template": None}
    ]


def test_objects_and_prefixes_are_listed(run, place) -> None:
    objects = run("sources", "objects", place, "--version", "v1", "-o", "json").data
    prefixes = run("sources", "prefixes", place, "--depth", "2", "-o", "json").data

    assert len(objects) == 40
    assert objects[0] == {"location": FILES[0], "references": 2, "num_bytes": 20, "arrays": 1}
    assert prefixes == [
        {
            "prefix": "s3://bucket/some/",
            "references": 80,
            "num_bytes": 800,
            "arrays": 1,
            "objects": 40,
        }
    ]


def test_users_are_shown(run, place) -> None:
    used = run(
        "sources", "users-of", place, FILES[3], "--version", "main", "--history", "-o", "json"
    )
    unused = run("sources", "users-of", place, "s3://elsewhere", "-o", "json")

    assert used.data["is_used"]
    assert used.data["arrays"] == {"/x": 2}
    assert (used.data["branches"], used.data["tags"]) == (["main"], ["v1"])
    assert not unused.data["is_used"]


def test_checksums_are_counted(run, place) -> None:
    rows = run("sources", "checksums", place, "-o", "json").data

    assert [(row["array"], row["unchecked"]) for row in rows] == [("/x", 80), ("total", 80)]


def test_advice_is_stored_and_followed_and_taken_back(run, place) -> None:
    (advice,) = run(
        "sources", "advise", place, "--min-bytes-saved", "1", "--save", "-o", "json"
    ).data
    done = run("sources", "rewrite", place, "-m", "shorter", "-o", "json").data
    again = run("sources", "rewrite", place, "-m", "shorter")
    back = run("sources", "rewrite", place, "main", "-m", "longer", "--absolute", "-o", "json").data

    assert advice["place"] == PREFIX
    assert (done["locations"], done["manifests"]) == (40, 1)
    assert done["bytes_after"] == advice["bytes_after"] < done["bytes_before"]
    assert again.stdout == "there was nothing to rewrite\n"
    assert back["bytes_after"] == done["bytes_before"]
