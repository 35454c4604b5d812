"""Unpacking, piping, and filling in variables."""

import gzip
import io
import sys
import zipfile

import pytest

from icestream.errors import AccessError, InvalidInputError, SourceError
from icestream.ledger.blocks.sources import CompressionFormat, PrepStepDecompress, PrepStepPipe
from icestream.ledger.data.sources.expressions import filled
from icestream.ledger.data.sources.preparing import prepare

_GUNZIP = PrepStepDecompress(format=CompressionFormat.GZIP)
_UPPER = PrepStepPipe(
    command=(sys.executable, "-c", "import sys; print(sys.stdin.read().upper(), end='')")
)


def _zip(**files: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.mkdir("folder")
        for name, data in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), data)
    return sink.getvalue()


def _unzip(pattern: str | None = None) -> PrepStepDecompress:
    return PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=pattern)


def test_without_steps_nothing_happens():
    assert prepare(b"abc", []) == b"abc"


def test_steps_follow_each_other():
    packed = _zip(a_csv=gzip.compress(b"abc"))

    assert prepare(packed, [_unzip(), _GUNZIP, _UPPER], allows_commands=True) == b"ABC"


def test_a_file_of_an_archive_is_chosen_by_its_path():
    packed = _zip(folder__a_csv=b"a", folder__b_csv=b"b")

    assert prepare(packed, [_unzip("folder/b.csv")]) == b"b"
    assert prepare(packed, [_unzip("*a.csv")]) == b"a"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (None, r"2 match \(no subPath is given\); the archive has folder/a.csv, folder/b.csv"),
        ("*.csv", r"2 match \(the subPath is '\*.csv'\)"),
        ("*.txt", "0 match"),
    ],
)
def test_more_or_fewer_files_than_one_are_refused(pattern, problem):
    with pytest.raises(SourceError, match=problem):
        prepare(_zip(folder__a_csv=b"a", folder__b_csv=b"b"), [_unzip(pattern)])


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (b"plain", _GUNZIP),
        (gzip.compress(b"abc", mtime=0)[:-4], _GUNZIP),
        (b"plain", _unzip()),
    ],
    ids=["no gzip", "gzip cut short", "no zip"],
)
def test_damaged_archives_are_refused(data, step):
    with pytest.raises(SourceError, match="the input is no"):
        prepare(data, [step])


def test_commands_run_only_where_they_are_allowed():
    with pytest.raises(AccessError, match="allow commands if you trust its author"):
        prepare(b"abc", [_UPPER])


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ((sys.executable, "-c", "raise SystemExit('no luck')"), "code 1: no luck"),
        (("/no/such/command",), "cannot be run"),
    ],
)
def test_commands_that_fail_are_an_error_of_the_source(command, problem):
    with pytest.raises(SourceError, match=problem):
        prepare(b"abc", [PrepStepPipe(command=command)], allows_commands=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain $text {x}", "plain $text {x}"),
        ("${{ env.A }}/${{env.B}}", "1/2"),
        ("${{ env.C || 'x y' }}", "x y"),
        ("${{ env.C || env.B }}", "2"),
        ('${{ env.C || "" }}', ""),
    ],
)
def test_variables_are_filled_in(text, value):
    assert filled(text, {"A": "1", "B": "2"}) == value


@pytest.mark.parametrize("text", ["${{ env.C }}", "${{ secret.A }}", "${{ }}"])
def test_what_has_no_value_is_refused(text):
    with pytest.raises(InvalidInputError):
        filled(text, {"A": "1"})
