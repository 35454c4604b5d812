"""The demo is the story of the product, so all of it must come true."""

import pytest
from pyspark.sql import SparkSession

from examples import demo

CHAPTERS = [
    "90 new, 0 changed",
    "sizes {'time': 90, 'lat': 180, 'lon': 360}",
    "day 10 is refused:",
    "0 new, 1 changed, 0 vanished, 1 scanned",
    "mean of day 10: 16.00",
    "10 new, 0 changed, 0 vanished, 10 scanned, 1 set aside",
    "reads as missing values: True",
    "101 days; the late one has its place",
    "nothing new (101 files listed), nothing written",
    "ChunkDoubleUpdate at /monthly",
    "reads the same values of day 10: True",
]
END = "icestream reads what icechunk commits: 'mean of March, by icechunk'"


@pytest.mark.slow
def test_the_demo_tells_its_whole_story(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.main()
    told = capsys.readouterr().out
    places = [told.find(chapter) for chapter in CHAPTERS]
    assert -1 not in places, told
    assert places == sorted(places)
    assert told.rstrip().endswith(END)
