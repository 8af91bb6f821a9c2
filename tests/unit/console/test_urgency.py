from datetime import UTC, datetime
from typing import Any

import pytest

from app.console.urgency import FittingAction, cases, whole_rate

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RAISED = "2026-05-01T11:59:00+00:00"


def an_alert(kind: str, name: str = "billing", **details: object) -> dict[str, Any]:
    return {
        "kind": kind,
        "topicName": "shop.orders",
        "subscriptionName": name,
        "description": f"{kind} happened",
        "details": details,
        "raisedAt": RAISED,
    }


def a_loss(name: str, at: str, **details: object) -> dict[str, Any]:
    return an_alert("LOSS_FORECAST", name, firstLossAt=at, cause="RETENTION", **details)


def test_what_is_lost_soonest_comes_first() -> None:
    later = a_loss("later", "2026-05-01T14:00:00+00:00")
    sooner = a_loss("sooner", "2026-05-01T12:10:00+00:00")
    found = cases(
        [an_alert("CERTIFICATE_EXPIRY"), later, an_alert("SUSPENDED", "off"), sooner], [], NOW
    )
    assert [each.name for each in found] == ["sooner", "later", "off", "billing"]
    assert found[0].left_s == 600
    assert found[0].worst.text == "Messages will be lost (the log keeps them no longer)"


def test_all_that_is_wrong_with_a_subscription_is_one_case() -> None:
    unhealthy = {
        "topicName": "shop.orders",
        "name": "billing",
        "problems": [{"code": "LAGGING", "description": "720 s old"}],
    }
    [case] = cases([an_alert("HEARTBEAT")], [unhealthy], NOW)
    assert [each.kind for each in case.troubles] == ["HEARTBEAT", "LAGGING"]
    assert (case.tone, case.left_s) == ("warn", None)


@pytest.mark.parametrize(
    ("alert", "action", "tone"),
    [
        (a_loss("x", RAISED, rateNeeded=80.0), FittingAction.RAISE, "bad"),
        (a_loss("x", RAISED), FittingAction.ERRORS, "bad"),
        (an_alert("SUSPENDED"), FittingAction.RESUME, "bad"),
        (an_alert("LEDGER_MISSING"), FittingAction.LEDGER, "bad"),
        (an_alert("UNDELIVERED"), FittingAction.UNDELIVERED, "warn"),
        (an_alert("SECRET_EXPIRY"), FittingAction.SECRETS, "calm"),
        (an_alert("CERTIFICATE_EXPIRY"), FittingAction.CERTIFICATES, "calm"),
        (an_alert("OF_A_LATER_VERSION"), FittingAction.LOOK, "calm"),
    ],
)
def test_each_trouble_has_the_action_that_fits(
    alert: dict[str, Any], action: FittingAction, tone: str
) -> None:
    [case] = cases([alert], [], NOW)
    assert (case.action, case.tone) == (action, tone)


@pytest.mark.parametrize(
    ("needed", "rate"),
    [(0.0, 1), (0.3, 1), (80.0, 80), (80.001, 81), (100.0, 100), (101.0, 110), (12_345.6, 13_000)],
)
def test_a_rate_to_set_is_whole_and_never_lower_than_needed(needed: float, rate: int) -> None:
    assert whole_rate(needed) == rate


def test_a_loss_that_has_begun_has_no_time_left() -> None:
    [case] = cases([a_loss("x", RAISED)], [], NOW)
    assert case.left_s == 0
