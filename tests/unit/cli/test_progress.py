"""What a person at a terminal sees of a run."""

import io

from rich.console import Console

from icestream.cli.progress import TerminalProgress, shown_progress
from icestream.ingest.progress import SILENT


def terminal(*, is_terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=160, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_stage_has_a_line_with_counts_and_rates():
    console = terminal()
    times = iter([0.0, 1.0, 2.0, 10.0, 12.0, 20.0])
    with TerminalProgress(console, now=lambda: next(times)) as progress:
        progress.stage("scan", 4)
        progress.advance(3, references=1000)
        progress.advance(1, references=1000, set_aside=1)
        progress.stage("write", 2)
        progress.advance(2, references=500_000)
    text = shown(console)
    assert "files scanned" in text
    assert "4/4" in text
    assert "1 set aside, 2,000 references, 1,000/s" in text
    assert "manifests written" in text
    assert "500,000 references, 250,000/s" in text


def test_notes_are_lines_of_their_own_and_no_markup():
    console = terminal()
    with TerminalProgress(console) as progress:
        progress.advance()  # before any stage: nothing to count for
        progress.note("Spark shows its work at http://127.0.0.1:4040 [bold]")
    assert "http://127.0.0.1:4040 [bold]" in shown(console)


def test_nothing_is_shown_where_there_is_no_terminal():
    console = terminal(is_terminal=False)
    with shown_progress(console) as progress:
        assert progress is SILENT
        progress.stage("scan", 1)
        progress.advance(1, references=5)
        progress.note("nobody reads this")
    assert shown(console) == ""


def test_a_terminal_gets_a_listener():
    with shown_progress(terminal()) as progress:
        assert isinstance(progress, TerminalProgress)
