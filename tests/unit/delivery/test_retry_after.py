from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.delivery.retry_after import RETRY_AFTER_MAX, retry_after

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1", 1),
        ("120", 120),
        (" 120\t", 120),
        ("0000000000000000007", 7),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Saturday, 21-Nov-26 12:00:30 GMT", 30),
        ("Sat Nov 21 12:00:30 2026", 30),
        ("Sun Nov  1 12:00:30 2026", 0),
        ("Sat, 21 Nov 2026 11:59:59 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("Sat, 21 Nov 2026 12:00:60 GMT", 60),
    ],
)
def test_understands_seconds_and_the_three_date_forms(text: str, seconds: int) -> None:
    assert retry_after(text, NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3, 3", 3),
        ("60, 120", 120),
        ("120,60", 120),
        ("soon, 60", 60),
        ("60, -1", 60),
        ("20, Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 12:00:30 GMT, 40", 40),
        ("Saturday, 21-Nov-26 12:00:30 GMT,Sat Nov 21 12:00:40 2026", 40),
        ("7, " * 9 + "8, 9", 8),
    ],
)
def test_of_several_values_the_longest_counts(text: str, seconds: int) -> None:
    assert retry_after(text, NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "7201",
        "7202",
        "86400",
        "9" * 5000,
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Fri, 31 Dec 9999 23:59:60 GMT",
        "Fri Dec 31 23:59:60 9999",
    ],
)
def test_an_absurd_wait_is_as_long_as_no_message_lives(text: str) -> None:
    assert retry_after(text, NOW) == RETRY_AFTER_MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "+1",
        "1.5",
        "1e3",
        "0x10",
        "١٢",
        "1 2",
        "soon",
        ",",
        "soon, later",
        "Sat, 21 Nov 2026 12:00:30, GMT",
        "Sat, 21 Nov 2026 12:00:30",
        "Sat, 21 Nov 2026 12:00:30 CET",
        "Sat, 21 nov 2026 12:00:30 GMT",
        "sat, 21 Nov 2026 12:00:30 GMT",
        "Sat, 31 Feb 2026 12:00:30 GMT",
        "Sat, 21 Nov 2026 24:00:30 GMT",
        "Sat, 21 Nov 2026 12:00:61 GMT",
        "Sat, 21 Nov 0000 12:00:30 GMT",
        "2026-11-21T12:00:30Z",
        "Sat, 21 Nov 2026 12:00:30 GMT\n",
    ],
)
def test_ignores_what_is_not_valid(text: str) -> None:
    assert retry_after(text, NOW) is None


def test_a_date_counts_from_now_in_whatever_zone_now_is() -> None:
    warsaw = NOW.astimezone(timezone(timedelta(hours=1)))
    assert retry_after("Sat, 21 Nov 2026 12:00:30 GMT", warsaw) == timedelta(seconds=30)


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"))
def test_any_text_is_a_bounded_wait_or_nothing(text: str) -> None:
    wait = retry_after(text, NOW)
    assert wait is None or timedelta() <= wait <= RETRY_AFTER_MAX
