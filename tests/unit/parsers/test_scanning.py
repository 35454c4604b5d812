"""Finding the parser, opening the file, and what becomes of files that cannot be scanned."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from tests.foreign_files import write_netcdf4
from virtualizarr.parsers import HDFParser

from icestream.errors import ErrorKind, InvalidInputError, NotFoundError, SourceError
from icestream.model.chunk_refs import VirtualRef
from icestream.parsers import isolation
from icestream.parsers.file_contents import Loading
from icestream.parsers.formats import FileFormat, format_of_file, format_of_folder
from icestream.parsers.isolation import ScanLimits, scan_file_isolated
from icestream.parsers.scanned_files import FileIdentity
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import RangedFile, SourceFile, checksum_of
from icestream.storage.memory import InMemoryStorage
from icestream.testing.parser_suite import assert_same_scan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_netcdf4(tmp_path / "a.nc")
    return tmp_path / "a.nc"


# -- formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "head", "found"),
    [
        ("a.nc", b"\x89HDF\r\n\x1a\n...", FileFormat.HDF5),
        ("a.nc", b"CDF\x05...", FileFormat.NETCDF3),
        ("wrong.tif", b"GRIB....", FileFormat.GRIB),
        ("behind-a-block", bytes(512) + b"\x89HDF\r\n\x1a\n", FileFormat.HDF5),
        ("big", b"MM\x00+", FileFormat.TIFF),
        ("stars", b"SIMPLE  =                    T", FileFormat.FITS),
        ("refs", b'{"version": 1, "refs": {', FileFormat.KERCHUNK_JSON),
        ("x", b'<Dataset xmlns="a" xmlns:dmrpp="b">', FileFormat.DMRPP),
        ("bulletin.grb", b"TTAAii header of a bulletin", FileFormat.GRIB),
        ("unknown.xyz", b"what is this", None),
    ],
)
def test_first_bytes_decide_and_names_help(name: str, head: bytes, found: object) -> None:
    assert format_of_file(f"s3://bucket/{name}", head) is found


def test_folders_are_known_by_their_names() -> None:
    assert format_of_folder("s3://bucket/a.zarr/") is FileFormat.ZARR
    assert format_of_folder("s3://bucket/a.parq") is FileFormat.KERCHUNK_PARQUET
    assert format_of_folder("s3://bucket/a.nc") is None


# -- parsers ---------------------------------------------------------------------------------------


def test_parsers_are_found_by_format_name_or_object(path: Path) -> None:
    by_head = scan_file(str(path))

    assert by_head.parser == "hdf5"
    assert_same_scan(scan_file(str(path), parser="hdf5"), by_head)
    by_object = scan_file(str(path), parser=HDFParser())
    assert by_object.parser == "HDFParser"
    assert list(by_object.arrays) == list(by_head.arrays)


def test_parsers_that_are_not_there_are_refused(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="the parser 'hdf6' is none of auto"):
        scan_file(str(path), parser="hdf6")
    with pytest.raises(InvalidInputError, match="cannot be loaded"):
        scan_file(str(path), parser="no_such_package:Parser")


def test_a_parser_that_returns_something_else_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="must return"):
        scan_file(str(path), parser=lambda url, registry: {url: registry})


def test_a_file_of_unknown_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("what is this")

    with pytest.raises(SourceError, match="name its parser") as caught:
        scan_file(str(tmp_path / "a.xyz"))
    assert caught.value.kind is ErrorKind.INVALID_FILE_FORMAT


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        scan_file(str(tmp_path / "a.nc"))


def test_names_with_odd_characters_are_read(path: Path) -> None:
    odd = path.rename(path.with_name("a b%20c#1.nc"))

    scanned = scan_file(str(odd))

    assert scanned.url == odd.as_uri()
    assert sorted(scanned.values) == ["/lat", "/lon", "/time"]


# -- identity --------------------------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_scanned_is_refused(path: Path) -> None:
    def rewrite(url: str, registry: Any) -> Any:
        store = HDFParser()(url, registry)
        os.utime(path, ns=(0, time.time_ns() + 10**9))
        return store

    with pytest.raises(SourceError, match="was changed while it was read"):
        scan_file(str(path), parser=rewrite)


def test_a_changed_object_is_not_read_further() -> None:
    storage = InMemoryStorage()
    storage.put("a", b"0123456789")
    source = SourceFile.open("s3://bucket/a", lambda _: (storage, "a"))
    assert source.read(2, 4) == b"23"

    storage.put("a", b"abcdefghij")

    with pytest.raises(SourceError, match="scan it again"):
        source.read(2, 4)


def test_references_record_the_etag_and_of_local_files_the_time(path: Path) -> None:
    local, chosen = scan_file(str(path)), scan_file(str(path), checksums="etag")
    modified = local.identity.last_modified
    assert modified is not None

    by_time, by_etag = (one.arrays["/sst"].references.ref(0) for one in (local, chosen))

    assert isinstance(by_time, VirtualRef)
    assert isinstance(by_etag, VirtualRef)
    assert by_time.etag is None
    assert 0 <= by_time.last_modified - modified.timestamp() < 1
    assert (by_etag.etag, by_etag.last_modified) == (local.identity.etag, 0)


def test_a_weak_etag_gives_way_to_the_time() -> None:
    url, modified = "s3://bucket/a", datetime(2020, 1, 1, tzinfo=UTC)

    assert checksum_of(url, FileIdentity(1, "x", modified)) == ("x", 0)
    assert checksum_of(url, FileIdentity(1, 'W/"x"', modified)) == (None, 1577836800)
    assert checksum_of(url, FileIdentity(1, "x", modified), "last-modified") == (None, 1577836800)
    assert checksum_of(url, FileIdentity(1)) == (None, 0)


def test_ranged_files_read_what_files_read() -> None:
    content = np.random.default_rng(0).bytes(5_000_000)
    storage = InMemoryStorage()
    storage.put("a", content)
    file = RangedFile(SourceFile.open("s3://bucket/a", lambda _: (storage, "a")))

    for start, size in ((0, 10), (4_999_990, 100), (131_000, 200), (131_200, 900_000), (7, 0)):
        file.seek(start)
        assert file.read(size) == content[start : start + size]
    assert file.seek(-5, os.SEEK_END) == len(content) - 5
    assert file.read() == content[-5:]


# -- code of others --------------------------------------------------------------------------------


class OddError(Exception):
    """Of a library that nobody here knows."""


class Panic(BaseException):
    """As libraries in Rust raise them."""


@pytest.mark.parametrize(
    "fault",
    [OddError("odd"), Panic("odd"), StopIteration("odd"), Warning("odd"), MemoryError("odd")],
)
def test_whatever_a_parser_raises_is_said_of_its_file(path: Path, fault: BaseException) -> None:
    def parse(url: str, registry: Any) -> None:
        raise fault

    with pytest.raises(
        SourceError, match=f"{path.name} cannot be scanned as .*parse: odd"
    ) as caught:
        scan_file(str(path), parser=parse)
    assert caught.value.__cause__ is fault


def test_an_error_without_words_is_named_by_its_class(path: Path) -> None:
    def parse(url: str, registry: Any) -> None:
        raise OddError

    with pytest.raises(SourceError, match="OddError"):
        scan_file(str(path), parser=parse)


def test_a_package_that_a_parser_misses_is_no_fault_of_the_file(path: Path) -> None:
    def parse(url: str, registry: Any) -> None:
        raise ImportError("no module named xyz")

    with pytest.raises(InvalidInputError, match="not installed"):
        scan_file(str(path), parser=parse)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_program_ends_it(path: Path, end: type[BaseException]) -> None:
    def parse(url: str, registry: Any) -> None:
        raise end

    with pytest.raises(end):
        scan_file(str(path), parser=parse)


# -- isolation -------------------------------------------------------------------------------------


BROKEN_PARSERS = """
import os, signal, time
import numpy as np
from virtualizarr.parsers import HDFParser

def signalled(url, registry):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    return HDFParser()(url, registry)

def hang(url, registry):
    time.sleep(60)

def crash(url, registry):
    os._exit(7)

class Panic(BaseException):
    pass

def panic(url, registry):
    raise Panic("index out of bounds")

def devour(url, registry):
    np.ones(1 << 40, np.uint8)
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module whose parsers do what no parser should; child processes find it."""
    name = f"broken_parsers_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(BROKEN_PARSERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    workers = isolation.ScanWorkers()  # those that run already do not see the module
    monkeypatch.setattr(isolation, "_workers", workers)
    yield name
    workers.close()


@pytest.mark.parametrize(
    ("parser", "reason"),
    [
        ("hang", "not scanned within 2 seconds"),
        ("crash", "exit code 7"),
        ("panic", "index out of bounds"),
        ("devour", "allocate"),
    ],
)
def test_a_parser_that_misbehaves_costs_its_file_only(
    path: Path, broken: str, parser: str, reason: str
) -> None:
    limits = ScanLimits(seconds=2 if parser == "hang" else 60)

    with pytest.raises(SourceError, match=reason):
        scan_file_isolated(str(path), parser=f"{broken}:{parser}", limits=limits)

    assert_same_scan(scan_file_isolated(str(path)), scan_file(str(path)))


def test_signals_to_stop_the_program_cost_no_file(path: Path, broken: str) -> None:
    parser = f"{broken}:signalled"
    assert scan_file_isolated(str(path), parser=parser).arrays.keys() >= {"/sst"}


def test_a_child_process_has_the_credentials_of_now(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = isolation.ScanWorkers()
    started: list[int] = []
    for key in ("first", "first", "second"):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key)
        workers.scan(str(path), {}, ScanLimits())
        started += [worker.process.pid for worker in workers._idle]
    workers.close()

    assert len(started) == 3
    assert started[0] == started[1] != started[2]


def test_errors_of_a_child_process_are_those_of_a_scan(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        scan_file_isolated(str(tmp_path / "missing.nc"))


def test_a_program_without_a_guard_is_told_so_and_no_file_is_blamed(path: Path) -> None:
    program = path.with_name("unguarded.py")
    program.write_text(
        "from icestream.parsers.isolation import scan_file_isolated\n"
        f"scan_file_isolated({str(path)!r})\n"
    )
    ran = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "InvalidInputError: the process that scans files ended at its start" in ran.stderr
    assert '`if __name__ == "__main__":`' in ran.stderr


def test_what_cannot_be_sent_to_a_process_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be sent"):
        scan_file_isolated(str(path), parser=lambda url, registry: None)


def test_values_that_cannot_be_decoded_are_named(tmp_path: Path) -> None:
    # the image says that it is compressed, and is not
    image = tmp_path / "a.tif"
    tifffile.imwrite(image, np.arange(16, dtype="u1").reshape(4, 4), compression="zlib")
    with tifffile.TiffFile(image) as file:
        start = file.pages[0].dataoffsets[0]
    content = bytearray(image.read_bytes())
    content[start : start + 2] = b"??"
    image.write_bytes(content)

    scanned = scan_file(str(image), loading=Loading(patterns=("image",)))

    assert "cannot be read" in scanned.problems[0].reason
