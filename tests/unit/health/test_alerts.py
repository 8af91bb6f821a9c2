import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.catalogue.client_certificate import ClientCertificate
from app.domain.catalogue.signing_secrets import SigningKind, SigningSecret
from app.domain.catalogue.subscription import DeliveryPolicy, OnExhausted, State, Subscription
from app.domain.circuit import CircuitReading, CircuitState
from app.domain.health.alert_events import alert_event
from app.domain.health.alerts import (
    Alert,
    AlertBook,
    AlertChanges,
    AlertKind,
    Case,
    Limits,
    Reading,
    readings,
)
from app.domain.health.forecast import Loss, LossCause
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.insight.ledger_missing import Shortfall
from app.domain.status import AttemptCounts, Output, RateMode, SubscriptionLoad

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LIMITS = Limits()
SUBSCRIPTION = Subscription(
    id="s-1", topic="shop.orders", name="billing", endpoint="https://b.test/"
)


def a_case(
    subscription: Subscription = SUBSCRIPTION,
    *,
    subscription_health: SubscriptionHealth | None = None,
    **output: object,
) -> Case:
    load = SubscriptionLoad(
        subscription_id=subscription.id,
        worker_id="w1",
        window=timedelta(seconds=60),
        in_flight=0,
        waiting_retries=0,
        counts=AttemptCounts(),
        output=Output(**output),  # type: ignore[arg-type] # fields of the value
    )
    return Case(
        subscription=subscription,
        subscription_health=subscription_health or SubscriptionHealth(),
        loads=[load],
    )


def kinds(case: Case) -> list[tuple[AlertKind, bool]]:
    return [(each.kind, each.is_nearly_over) for each in readings(case, LIMITS, NOW)]


def a_circuit(state: str) -> CircuitReading:
    return CircuitReading(state=CircuitState(state), since=NOW, reason="10 failures in a row")


def a_loss(after: timedelta) -> SubscriptionHealth:
    return SubscriptionHealth(
        losses=(Loss(cause=LossCause.RETENTION, at=NOW + after, messages=3, rate=2.0),)
    )


def a_certificate(left: timedelta) -> Subscription:
    certificate = ClientCertificate(
        chain="…", private_key="…", subject="CN=angelia", not_after=NOW + left
    )
    return replace(SUBSCRIPTION, client_certificate=certificate)


def signed(*ends: timedelta | None, kind: SigningKind = SigningKind.V1) -> Subscription:
    secrets = tuple(
        SigningSecret(
            id=f"k{number}",
            kind=kind,
            key="whsec_…",
            created_at=NOW,
            expires_at=None if end is None else NOW + end,
        )
        for number, end in enumerate(ends)
    )
    return replace(SUBSCRIPTION, signing_secrets=secrets)


def buffered(waiting_retries: int, **policy: object) -> Case:
    """It has room for ten messages that are tried again."""
    settings = DeliveryPolicy(retry_buffer_max=10, **policy)  # type: ignore[arg-type] # its fields
    case = a_case(replace(SUBSCRIPTION, policy=settings))
    return replace(
        case, loads=[replace(load, waiting_retries=waiting_retries) for load in case.loads]
    )


GONE = SUBSCRIPTION.in_state(State.SUSPENDED, reason="The endpoint answered 410")
DAY = timedelta(days=1)
SHORT = Shortfall(number=3, missing=7, since=NOW - DAY, until=NOW)


@pytest.mark.parametrize(
    ("case", "found"),
    [
        (a_case(), []),
        (a_case(GONE), [(AlertKind.SUSPENDED, False)]),
        (a_case(SUBSCRIPTION.in_state(State.SUSPENDED)), []),
        (a_case(circuit=a_circuit("OPEN")), [(AlertKind.CIRCUIT_OPEN, False)]),
        (a_case(circuit=a_circuit("HALF_OPEN")), [(AlertKind.CIRCUIT_OPEN, True)]),
        (a_case(circuit=a_circuit("CLOSED")), []),
        (a_case(mode=RateMode.HEARTBEAT), [(AlertKind.HEARTBEAT, False)]),
        (a_case(mode=RateMode.SLOW), [(AlertKind.HEARTBEAT, True)]),
        (buffered(9), [(AlertKind.RETRY_BUFFER_FULL, True)]),
        (buffered(10), [(AlertKind.RETRY_BUFFER_FULL, False)]),
        (buffered(10, on_exhausted=OnExhausted.RUN), [(AlertKind.RETRY_BUFFER_FULL, False)]),
        (buffered(8), []),
        (buffered(10, on_exhausted=OnExhausted.DISCARD), []),
        # What waits for its delay has not failed.
        (buffered(10, sending_delay=timedelta(seconds=1)), []),
        (
            a_case(subscription_health=SubscriptionHealth(discarded=10, discarded_share=0.05)),
            [(AlertKind.UNDELIVERED, False)],
        ),
        (
            a_case(subscription_health=SubscriptionHealth(discarded=10, discarded_share=0.03)),
            [(AlertKind.UNDELIVERED, True)],
        ),
        (a_case(subscription_health=SubscriptionHealth(discarded=10, discarded_share=0.02)), []),
        (
            a_case(subscription_health=SubscriptionHealth(discarded=9, discarded_share=1.0)),
            [(AlertKind.UNDELIVERED, True)],
        ),
        (
            a_case(subscription_health=a_loss(timedelta(hours=6))),
            [(AlertKind.LOSS_FORECAST, False)],
        ),
        (a_case(subscription_health=a_loss(timedelta(hours=8))), [(AlertKind.LOSS_FORECAST, True)]),
        (a_case(subscription_health=a_loss(timedelta(hours=10))), []),
        (replace(a_case(), short=SHORT), [(AlertKind.LEDGER_MISSING, False)]),
        (a_case(a_certificate(14 * DAY)), [(AlertKind.CERTIFICATE_EXPIRY, False)]),
        (a_case(a_certificate(-DAY)), [(AlertKind.CERTIFICATE_EXPIRY, False)]),
        (a_case(a_certificate(15 * DAY)), []),
        (a_case(signed(DAY)), [(AlertKind.SECRET_EXPIRY, False)]),
        # It is being changed: the new one goes on.
        (a_case(signed(None, DAY)), []),
        (a_case(signed(DAY, 20 * DAY)), []),
        (a_case(signed(-DAY)), []),
    ],
)
def test_what_is_to_be_told_of_a_subscription(
    case: Case, found: list[tuple[AlertKind, bool]]
) -> None:
    assert kinds(case) == found


class Story:
    """A book, and what was told and is still so."""

    def __init__(self) -> None:
        numbers = itertools.count(1)
        self.book = AlertBook(lambda: f"a{next(numbers)}")
        self.active: list[Alert] = []

    def at(
        self, seconds: float, *what: Reading, who: Sequence[Subscription] = (SUBSCRIPTION,)
    ) -> tuple[list[str], list[str]]:
        now = NOW + timedelta(seconds=seconds)
        changes: AlertChanges = self.book.changes(self.active, [(each, what) for each in who], now)
        over = {alert.id for alert in changes.cleared}
        self.active = [each for each in self.active if each.id not in over] + [*changes.raised]
        return [each.id for each in changes.raised], [each.id for each in changes.cleared]


def reading(kind: AlertKind, *, nearly_over: bool = False) -> Reading:
    return Reading(kind=kind, description="so it is", is_nearly_over=nearly_over)


def test_an_alert_is_told_when_it_begins_and_when_it_is_over_and_never_in_between() -> None:
    story, so = Story(), reading(AlertKind.CIRCUIT_OPEN)
    assert story.at(0, so) == (["a1"], [])
    assert story.at(5, so) == ([], [])
    assert story.at(10) == ([], [])
    assert story.at(70) == ([], ["a1"])
    assert story.at(75, so) == (["a2"], [])


def test_what_comes_and_goes_is_one_alert() -> None:
    story, so = Story(), reading(AlertKind.CIRCUIT_OPEN)
    story.at(0, so)
    for seconds in range(5, 600, 50):
        assert story.at(seconds) == ([], [])
        assert story.at(seconds + 25, so) == ([], [])


def test_what_is_nearly_over_neither_raises_an_alert_nor_clears_it() -> None:
    story = Story()
    nearly = reading(AlertKind.UNDELIVERED, nearly_over=True)
    assert story.at(0, nearly) == ([], [])
    assert story.at(5, reading(AlertKind.UNDELIVERED)) == (["a1"], [])
    assert story.at(1_000, nearly) == ([], [])
    assert story.at(1_005) == ([], [])
    assert story.at(1_125) == ([], ["a1"])


def test_a_subscriber_must_be_down_for_a_while_before_it_is_told() -> None:
    story, down = Story(), reading(AlertKind.HEARTBEAT)
    assert story.at(0, down) == ([], [])
    assert story.at(5, down) == ([], [])
    assert story.at(10, down) == (["a1"], [])


def test_what_was_down_for_a_moment_begins_anew() -> None:
    story, down = Story(), reading(AlertKind.HEARTBEAT)
    story.at(0, down)
    story.at(5)
    assert story.at(10, down) == ([], [])
    assert story.at(20, down) == (["a1"], [])


def test_alerts_of_a_subscription_that_is_gone_are_over_at_once() -> None:
    story = Story()
    story.at(0, reading(AlertKind.LOSS_FORECAST))
    assert story.at(1, who=()) == ([], ["a1"])


def test_who_takes_over_goes_on_with_what_was_told() -> None:
    story, so = Story(), reading(AlertKind.SUSPENDED)
    story.at(0, so)
    story.book = Story().book
    assert story.at(5, so) == ([], [])
    assert story.at(10) == ([], ["a1"])


def test_each_subscription_has_alerts_of_its_own() -> None:
    other = replace(SUBSCRIPTION, id="s-2", name="audit")
    story = Story()
    raised, _ = story.at(0, reading(AlertKind.SUSPENDED), who=[SUBSCRIPTION, other])
    assert len(raised) == 2
    assert {alert.subscription for alert in story.active} == {"billing", "audit"}


def test_the_event_of_an_alert_is_a_cloud_event_with_an_id_of_its_own() -> None:
    story = Story()
    story.at(0, reading(AlertKind.SUSPENDED))
    (alert,) = story.active
    event = alert_event(alert, raised=True)
    assert event["data"].pop("details") == {}
    assert event == {
        "specversion": "1.0",
        "id": "a1-raised",
        "source": "/angelia",
        "type": "angelia.alert.raised",
        "subject": "shop.orders/billing",
        "time": "2026-01-31T12:00:00+00:00",
        "datacontenttype": "application/json",
        "data": {
            "alertId": "a1",
            "kind": "SUSPENDED",
            "state": "RAISED",
            "topicName": "shop.orders",
            "subscriptionName": "billing",
            "description": "so it is",
            "raisedAt": "2026-01-31T12:00:00+00:00",
        },
    }
    over = replace(alert, cleared_at=NOW + timedelta(hours=1))
    cleared = alert_event(over, raised=False)
    assert (cleared["id"], cleared["time"]) == ("a1-cleared", "2026-01-31T13:00:00+00:00")
    assert cleared["data"]["clearedAt"] == cleared["time"]
    with pytest.raises(ValueError, match="not over"):
        alert_event(alert, raised=False)
