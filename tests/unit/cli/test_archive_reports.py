"""What is shown of runs that follow each other."""

from datetime import UTC, datetime

from icestream.cli.archive_reports import attempted, reported, stopped
from icestream.errors import ErrorKind, StorageError
from icestream.ingest.run_reports import RunReport
from icestream.ingest.watching import Attempt

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
GOOD = RunReport(archive="sst", run=3, num_new=1, snapshot="ABC")
ASIDE = RunReport(archive="sst", run=3, set_aside=(("s3://b/x.nc", "no HDF5"),))


def test_files_that_were_set_aside_show_in_the_exit_code():
    assert reported(GOOD).exit_code == 0
    assert reported(ASIDE).exit_code == 7
    assert "s3://b/x.nc: no HDF5" in reported(ASIDE).text


def test_a_run_of_many_has_a_time_and_a_number():
    shown = attempted(Attempt(5, report=GOOD, pause=60.0), NOON)
    assert shown.text.startswith("2026-01-31 12:00:00 sst, run 3")
    assert shown.data["number"] == 5
    assert shown.data["next_in_seconds"] == 60
    assert shown.data["snapshot"] == "ABC"
    assert shown.exit_code == 0
    assert attempted(Attempt(5, report=ASIDE), NOON).exit_code == 7


def test_a_failed_run_is_told_with_the_next_try():
    error = StorageError("the store is away", kind=ErrorKind.OBJECT_STORE)
    shown = attempted(Attempt(2, error=error, pause=20.0), NOON)
    assert shown.text == ("2026-01-31 12:00:00 failed: the store is away; next try in 20 seconds")
    assert shown.data["error"] == "StorageError"
    assert shown.data["message"] == "the store is away"
    assert shown.exit_code == 5
    assert "next try" not in attempted(Attempt(2, error=error), NOON).text


def test_to_stop_is_no_failure():
    shown = stopped(NOON)
    assert shown.exit_code == 0
    assert shown.data["is_stopped"] is True
