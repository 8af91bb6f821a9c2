from datetime import timedelta

import pytest

from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from app.domain.catalogue.subscription import State
from app.domain.errors import ValidationFailedError

BODY = {"name": "s", "endpoint": "http://h.test/"}
GIVEN = {
    "mode": "POLLING",
    "fetchSize": 7,
    "fetchTimeout": 200,
    "frequency": 4000,
    "pollSize": 3,
    "pollingTime": 1500,
}


def test_how_messages_are_fetched_is_answered_as_it_was_given() -> None:
    made = new_subscription("a.b", BODY | {"fetch": GIVEN}, strict=True)
    assert made.fetch == FetchPolicy(
        mode=FetchMode.POLLING,
        fetch_size=7,
        fetch_timeout=timedelta(milliseconds=200),
        frequency=timedelta(seconds=4),
        poll_size=3,
        polling_time=timedelta(seconds=1.5),
    )
    assert subscription_read(made, State.ACTIVE).answered()["fetch"] == GIVEN
    changed = changed_subscription(made, {"fetch": {"pollSize": 4}}, strict=True)
    assert subscription_read(changed, State.ACTIVE).answered()["fetch"] == GIVEN | {"pollSize": 4}
    assert changed_subscription(made, {"fetch": None}, strict=True).fetch == FetchPolicy()


def test_a_fetch_size_of_zero_polls_as_in_anypoint_mq() -> None:
    made = new_subscription("a.b", BODY | {"fetch": {"fetchSize": 0}}, strict=True)
    assert made.fetch == FetchPolicy(mode=FetchMode.POLLING)
    back = changed_subscription(made, {"fetch": {"mode": "PREFETCH"}}, strict=True)
    assert back.fetch == FetchPolicy()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("mode", "PULL", "must be 'PREFETCH' or 'POLLING'"),
        ("fetchSize", -1, "must be 0 to 10000"),
        ("fetchSize", 10_001, "must be 0 to 10000"),
        ("fetchTimeout", 99, "must be 100 to 60000"),
        ("frequency", 999, "must be 1000 to 60000"),
        ("frequency", 60_001, "must be 1000 to 60000"),
        ("pollSize", 0, "must be 1 to 10000"),
        ("pollingTime", 99, "must be 100 to 3600000"),
        ("pollingTime", 3_600_001, "must be 100 to 3600000"),
    ],
)
def test_a_value_out_of_range_is_refused_with_field_and_range(
    name: str, value: object, problem: str
) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", BODY | {"fetch": {name: value}}, strict=False)
    (only,) = refused.value.details
    assert (only.path, only.message) == (f"fetch.{name}", problem)


def test_the_domain_keeps_to_the_same_ranges() -> None:
    with pytest.raises(ValidationFailedError) as refused:
        FetchPolicy(polling_time=timedelta(milliseconds=99))
    (only,) = refused.value.details
    assert (only.path, only.message) == ("fetch.pollingTime", "must be 100 to 3600000")
