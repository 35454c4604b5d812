from datetime import UTC, datetime, timedelta

import pytest
import typer

from icestream.cli.versions import parse_moment, selected, snapshot_of
from icestream.errors import RefNotFoundError


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_date_in_utc_unless_it_says_otherwise(text, moment) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize(("text", "age"), [("12h", 0.5), ("30d", 30), ("2w", 14)])
def test_a_moment_is_an_age(text, age) -> None:
    expected = datetime.now(UTC) - timedelta(days=age)

    assert abs(parse_moment(text) - expected) < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["yesterday", "30", "d", "-3d"])
def test_anything_else_is_no_moment(text) -> None:
    with pytest.raises(typer.BadParameter, match="30d"):
        parse_moment(text)


def test_branches_come_before_tags_and_tags_before_ids(repo) -> None:
    main, first = (info.id for info, _ in zip(repo.ancestry(branch="main"), range(2), strict=False))
    repo.create_tag("main", first)
    repo.create_tag("v1", first)

    assert snapshot_of(repo, "main") == main
    assert snapshot_of(repo, "tag:main") == first
    assert snapshot_of(repo, "v1") == first
    assert snapshot_of(repo, f"snapshot:{main}") == main
    assert snapshot_of(repo, first) == first
    assert selected(repo, "v1", "from_") == {"from_tag": "v1"}


def test_a_name_that_says_it_is_a_branch_is_nothing_else(repo) -> None:
    repo.create_tag("v1", repo.lookup_branch("main"))

    with pytest.raises(RefNotFoundError):
        snapshot_of(repo, "branch:v1")
