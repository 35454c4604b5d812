"""Listings of sources: what wildcards mean, what is a file, and what it takes."""

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest_builders import archive

from icestream.credentials import s3_static_credentials
from icestream.errors import AccessError, InvalidInputError, NotFoundError, StorageError
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.listing import FILE_SCHEMA, list_sources
from icestream.ingest.source_access import SourceAccess
from icestream.ingest.source_patterns import parse_source
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.parsers.source_files import SourceFile
from icestream.repository.repository import Repository
from icestream.storage.memory import InMemoryStorage
from icestream.testing.fake_servers import FakeWebServer

FILES = ("a.nc", "b.grib", "2020/a.nc", "2020/01/a.nc", "2020/01/b.nc", "2021/a.nc")


def make(folder: Path, *names: str, data: bytes = b"data") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def names(folder: Path, *sources: str, exclude: tuple[str, ...] = ()) -> list[str]:
    """Return what sources below a folder mean, relative to it."""
    declared = archive(sources=tuple(f"{folder}{source}" for source in sources), exclude=exclude)
    urls = list_sources(declared).table["url"].to_pylist()
    return [url.removeprefix(f"{folder.as_uri()}/") for url in urls]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make(tmp_path, *FILES)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", FILES),
        ("/", FILES),
        ("/2020", ("2020/01/a.nc", "2020/01/b.nc", "2020/a.nc")),
        ("/2020/a.nc", ("2020/a.nc",)),
        ("/*.nc", ("a.nc",)),
        ("/*/*.nc", ("2020/a.nc", "2021/a.nc")),
        ("/**/a.nc", ("2020/01/a.nc", "2020/a.nc", "2021/a.nc", "a.nc")),
        ("/2020/**", ("2020/01/a.nc", "2020/01/b.nc", "2020/a.nc")),
        ("/202?/a.nc", ("2020/a.nc", "2021/a.nc")),
        ("/20**/b.nc", ("2020/01/b.nc",)),
        ("/?.*", ("a.nc", "b.grib")),
    ],
)
def test_wildcards_stay_within_a_name_unless_they_are_doubled(
    folder: Path, source: str, expected: tuple[str, ...]
) -> None:
    assert names(folder, source) == sorted(expected)


@pytest.mark.parametrize(
    ("exclude", "left_out"),
    [
        ("*.grib", {"b.grib"}),
        ("01/", {"2020/01/a.nc", "2020/01/b.nc"}),
        ("01", {"2020/01/a.nc", "2020/01/b.nc"}),
        ("2020/*.nc", {"2020/a.nc"}),
        ("**/b.*", {"2020/01/b.nc", "b.grib"}),
        ("{folder}/2021/", {"2021/a.nc"}),
        ("{folder}/2020/a.nc", {"2020/a.nc"}),
        ("{uri}/*/a.nc", {"2020/a.nc", "2021/a.nc"}),
        ("s3://elsewhere/**", set()),
    ],
)
def test_what_is_excluded_is_left_out(folder: Path, exclude: str, left_out: set[str]) -> None:
    text = exclude.format(folder=folder, uri=folder.as_uri())

    assert names(folder, "/", exclude=(text,)) == sorted(set(FILES) - left_out)


def test_a_file_that_two_sources_mean_is_listed_once(folder: Path) -> None:
    assert names(folder, "/2020/**/*.nc", "/2020/a.nc", "/*/a.nc") == [
        "2020/01/a.nc",
        "2020/01/b.nc",
        "2020/a.nc",
        "2021/a.nc",
    ]


def test_a_listing_has_the_state_that_a_scan_finds(folder: Path) -> None:
    listing = list_sources(archive(sources=(str(folder),)))

    assert listing.table.schema == FILE_SCHEMA
    assert listing.num_requests == 0
    for row in listing.table.to_pylist():
        identity = SourceFile.open(row["url"]).identity
        found = (identity.size, identity.etag, identity.last_modified)
        assert (row["size"], row["etag"], row["last_modified"]) == found


def test_odd_names_are_encoded_as_scans_have_them(tmp_path: Path) -> None:
    odd = ("a b.nc", "100%.nc", "what?.nc", "#1.nc", "grün.nc", "[1].nc", "x+y.nc")
    make(tmp_path, *odd)

    listed = list_sources(archive(sources=(f"{tmp_path}/*.nc",))).table["url"].to_pylist()

    assert listed == sorted((tmp_path / name).as_uri() for name in odd)
    assert all(SourceFile.open(url).size == 4 for url in listed)
    url = f"{tmp_path.as_uri()}/what%3F.nc"
    assert list_sources(archive(sources=(url,))).table["url"].to_pylist() == [url]


def test_hidden_files_count_where_a_source_names_them(tmp_path: Path) -> None:
    make(tmp_path, "a.nc", ".b.nc", ".snapshot/a.nc", "c/.d.nc")

    assert names(tmp_path, "/") == ["a.nc"]
    assert names(tmp_path, "/**/*.nc") == ["a.nc"]
    assert names(tmp_path, "/.*.nc") == [".b.nc"]
    assert names(tmp_path, "/.snapshot/*") == [".snapshot/a.nc"]


def test_folders_below_a_hidden_one_are_listed_where_it_is_the_source(tmp_path: Path) -> None:
    make(tmp_path / ".cache", "x/a.nc")

    assert names(tmp_path / ".cache", "/") == ["x/a.nc"]


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    make(tmp_path, "a.nc", data=b"")

    assert names(tmp_path, "/") == ["a.nc"]


def test_a_folder_of_a_format_that_is_one_counts_as_a_file(tmp_path: Path) -> None:
    make(tmp_path, "a.zarr/.zgroup", "a.zarr/x/.zarray", "a.zarr/x/0", "b.parq/.zmetadata", "c.nc")

    def listed() -> dict[str, tuple[int, str]]:
        rows = list_sources(archive(sources=(f"{tmp_path}/*",))).table.to_pylist()
        return {row["url"].rpartition("/")[2]: (row["size"], row["etag"]) for row in rows}

    before = listed()
    make(tmp_path, "a.zarr/x/0", data=b"DATA")
    os.utime(tmp_path / "a.zarr/x/0", ns=(1, 1))
    after = listed()

    assert {name: size for name, (size, _) in before.items()} == {
        "a.zarr": 12,
        "b.parq": 4,
        "c.nc": 4,
    }
    assert before["a.zarr"] != after["a.zarr"]
    assert before["b.parq"] == after["b.parq"]
    assert names(tmp_path, "/a.zarr") == ["a.zarr"]
    assert names(tmp_path, "/**") == ["a.zarr", "b.parq", "c.nc"]


def test_links_that_lead_back_are_not_followed_for_ever(tmp_path: Path) -> None:
    make(tmp_path, "data/a.nc", "outside/b.nc")
    (tmp_path / "data" / "self").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "other").symlink_to(tmp_path / "outside")
    (tmp_path / "data" / "broken").symlink_to(tmp_path / "nowhere")

    assert names(tmp_path / "data", "/") == ["a.nc", "other/b.nc"]


def test_a_source_without_files_is_named(folder: Path) -> None:
    for source in ("/*.tif", "/nothing", "/nothing/*"):
        with pytest.raises(
            NotFoundError, match=f"the source {folder}{source} has no files".replace("*", r"\*")
        ):
            names(folder, "/a.nc", source)
    with pytest.raises(NotFoundError, match="exclude"):
        names(folder, "/*.nc", exclude=("*.nc",))


def test_a_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    make(tmp_path, "a.nc")
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff.nc")).write_bytes(b"data")

    with pytest.raises(StorageError, match="not UTF-8"):
        names(tmp_path, "/")


@pytest.mark.parametrize("source", ["s3:///x", "s3://", "s3://*/a.nc"])
def test_a_source_without_a_bucket_is_told(source: str) -> None:
    with pytest.raises(InvalidInputError, match="names no bucket"):
        parse_source(source)


def test_a_local_path_is_relative_to_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    listed = list_sources(archive(sources=("2020/../*.nc",))).table["url"].to_pylist()

    assert listed == [(folder / "a.nc").as_uri()]


# -- web servers -----------------------------------------------------------------------------------


def test_single_files_of_web_servers_are_looked_at() -> None:
    with FakeWebServer() as server:
        server.put("/data/a.nc", b"data")
        source = f"http://{server.host}/data/a.nc"
        listing = list_sources(archive(sources=(source,)))

        assert listing.num_requests == 1
        [row] = listing.table.to_pylist()
        assert (row["url"], row["size"]) == (source, 4)
        with pytest.raises(NotFoundError):
            list_sources(archive(sources=(f"http://{server.host}/data/b.nc",)))


@pytest.mark.parametrize("source", ["https://host/data/*.nc", "https://host/data/"])
def test_web_servers_have_no_listings(source: str) -> None:
    with pytest.raises(InvalidInputError, match="web servers have no listings"):
        list_sources(archive(sources=(source,)))


# -- access ----------------------------------------------------------------------------------------


def test_only_what_an_archive_names_may_be_read(tmp_path: Path) -> None:
    make(tmp_path, "in/a.nc", "out/b.nc", "more/c.nc")
    declared = archive(
        sources=(f"{tmp_path}/in/*.nc",),
        access=(SourcePlace(prefix=(tmp_path / "more").as_uri()),),
    )
    access = SourceAccess.of(declared)

    storage, key = access.find_object(str(tmp_path / "in" / "a.nc"))
    assert storage.get(key) == b"data"
    assert access.find_object(f"{tmp_path.as_uri()}/more/c.nc")[1].endswith("more/c.nc")
    with pytest.raises(AccessError, match="`access` of its declaration"):
        access.find_object(f"{tmp_path.as_uri()}/out/b.nc")
    with pytest.raises(AccessError, match="not authorised"):
        access.find_object("s3://elsewhere/secret.nc")


def test_access_is_as_the_containers_of_the_repository_say(tmp_path: Path) -> None:
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        VirtualChunkContainer.of(prefix=f"{tmp_path.as_uri()}/", name="files")
    )
    make(tmp_path, "a.nc")
    repository = Repository.create(InMemoryStorage(), config)
    declared = archive(sources=(f"{tmp_path}/",))

    assert len(list_sources(declared, SourceAccess.of(declared, repository=repository))) == 1
    bare = Repository.create(InMemoryStorage())
    with pytest.raises(AccessError, match="no virtual chunk container covers"):
        list_sources(declared, SourceAccess.of(declared, repository=bare))


def test_access_pickles_and_never_shows_secrets() -> None:
    secret = "not-for-everybody"
    keys = s3_static_credentials(access_key_id="id", secret_access_key=secret)
    declared = archive(sources=("s3://bucket/sst/*.nc",))
    access = SourceAccess.of(declared, authorize={"s3://bucket/": keys})

    copied = pickle.loads(pickle.dumps(access))

    assert copied == access
    assert repr(copied) == "SourceAccess(prefixes=('s3://bucket/sst/',))"
    storage, key = copied.find_object("s3://bucket/sst/a.nc")
    assert key == "sst/a.nc"
    assert secret not in repr((storage, copied.resolver, copied.find_object))


def test_what_is_listed_twice_is_the_same(folder: Path) -> None:
    declared = archive(sources=(str(folder),))

    one, other = (list_sources(declared).table for _ in range(2))

    assert one.equals(other)
    assert isinstance(one, pa.Table)
