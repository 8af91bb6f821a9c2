from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.cli.moments import moment_of

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (
            "2026-01-31T12:00:00.5+02:00",
            datetime(2026, 1, 31, 12, 0, 0, 500_000, timezone(timedelta(hours=2))),
        ),
        ("1769860800000", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("-90s", NOW - timedelta(seconds=90)),
        ("-30m", NOW - timedelta(minutes=30)),
        ("-6h", NOW - timedelta(hours=6)),
        ("-2d", NOW - timedelta(days=2)),
    ],
)
def test_a_time_is_read_as_it_is_meant(text: str, meant: datetime) -> None:
    assert moment_of(text, now=NOW) == meant


@pytest.mark.parametrize(
    "text", ["", "soon", "6h", "-6", "-6w", "-999999d", "9" * 30, "2026-13-01"]
)
def test_what_is_no_time_is_told_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time"):
        moment_of(text, now=NOW)
