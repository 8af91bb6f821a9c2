from datetime import UTC, datetime, timedelta, timezone

import pytest

from angelia_client import Redrive
from angelia_client.requests import query_of, subscription_path, time_text, without_password

MOMENT = datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2)))


def test_names_are_one_part_of_a_path_whatever_is_in_them() -> None:
    assert subscription_path("a/../b?c", "d#e") == "/topics/a%2F..%2Fb%3Fc/subscriptions/d%23e"


def test_a_query_says_what_is_given() -> None:
    assert query_of({"a": None, "b": "x y&", "c": True, "d": 0}) == "?b=x+y%26&c=true&d=0"
    assert query_of({"since": MOMENT}) == "?since=2026-01-31T12%3A00%3A00%2B00%3A00"
    assert query_of({"a": None}) == ""


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        time_text(datetime(2026, 1, 31, tzinfo=UTC).replace(tzinfo=None))


def test_a_redrive_says_what_is_given() -> None:
    assert Redrive().as_body() == {"only": "discarded"}
    given = Redrive(since=MOMENT, status_codes=(404,), reason="gone", again=True)
    assert given.as_body() == {
        "only": "discarded",
        "from": "2026-01-31T12:00:00+00:00",
        "statusCodes": [404],
        "reason": "gone",
        "again": True,
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@host:1/api", "http://host:1/api"),
        ("http://me:se@cret@host", "http://host"),
        ("http://host/a@b", "http://host/a@b"),
        ("host:8090", "host:8090"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
