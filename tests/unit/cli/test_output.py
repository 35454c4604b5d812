"""Results that come one by one."""

import json

from icestream.cli.output import JsonOutput, TextOutput
from icestream.cli.results import Document, Done, Stream


def documents():
    yield Document("first\n", {"run": 1}, 7)
    yield Document("second", {"run": 2, "lines": ["a\nb"]}, 0)


def test_programs_get_one_line_each(capsys):
    assert JsonOutput().show(Stream(documents())) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["run"] for line in lines] == [1, 2]


def test_people_get_one_text_after_the_other(capsys):
    assert TextOutput().show(Stream(documents())) == 0
    assert capsys.readouterr().out == "first\nsecond\n"


def test_the_last_one_gives_the_exit_code(capsys):
    assert TextOutput().show(Stream(iter([Document("", {}, 0), Document("", {}, 7)]))) == 7
    assert TextOutput().show(Stream(iter([]))) == 0
    capsys.readouterr()


def test_each_is_shown_before_the_next_is_made(capsys):
    shown = []

    def watched():
        yield Document("first", {})
        shown.append(capsys.readouterr().out)
        yield Document("second", {})

    TextOutput().show(Stream(watched()))
    assert shown == ["first\n"]


def test_other_results_give_their_exit_code(capsys):
    assert JsonOutput().show(Document("", {}, 6)) == 6
    assert TextOutput().show(Done("done")) == 0
    capsys.readouterr()
