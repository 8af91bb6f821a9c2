"""What is said of the likely cause of failures."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from app.domain.access.audit import Action, AuditEvent, Change
from app.domain.insight.analytics import DistinguishingField, FailureCluster, FailurePattern
from app.domain.insight.failure_causes import (
    BEGUN_BEFORE,
    CHANGED_WITHIN,
    SettingsChange,
    changes_of,
    likely_cause,
)

NOON: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
BEGUN: Final = NOON + timedelta(hours=2, minutes=2)
CLUSTER: Final = FailureCluster(
    topic="shop.orders", status=400, error="bad", shape="{a}", pattern=FailurePattern.MIXED,
    messages=7, subscriptions=1, shapes=1, first_at=BEGUN, last_at=BEGUN, example_id="m",
    example_subscription="billing", example_reason="bad",
)  # fmt: skip
WITHOUT: Final = DistinguishingField(
    field="customer.id", present=False, value=None, support=1.0, passing=0.0, lift=2.0
)
SCHEMA: Final = SettingsChange(
    of="shop.orders", at=BEGUN - timedelta(minutes=1), settings=("description", "schema"), version=3
)
ENDPOINT: Final = SettingsChange(
    of="shop.orders/billing", at=BEGUN - timedelta(minutes=2), settings=("endpoint",)
)


def said(*changes: SettingsChange, **settings: Any) -> str:  # noqa: ANN401 - fields of the value
    return likely_cause(replace(CLUSTER, **settings), changes, since=NOON)


def test_a_change_of_the_schema_is_named_with_the_messages_that_it_concerns() -> None:
    assert said(SCHEMA, fields=(WITHOUT,)) == (
        "400 since 2026-01-31 14:02, only messages without `customer.id`, one subscription: a"
        " change of schema, description of shop.orders at 2026-01-31 14:01 (schema version 3)"
    )


def test_a_schema_explains_more_than_an_endpoint_and_that_more_than_anything_else() -> None:
    other = replace(ENDPOINT, at=BEGUN, settings=("rate",))
    assert "of schema" in said(other, ENDPOINT, SCHEMA)
    assert "of endpoint of shop.orders/billing at 2026-01-31 14:00" in said(other, ENDPOINT)
    assert "of rate" in said(other)


@pytest.mark.parametrize(
    "change",
    [
        replace(SCHEMA, at=BEGUN + timedelta(seconds=1)),
        replace(SCHEMA, at=BEGUN - CHANGED_WITHIN - timedelta(seconds=1)),
        replace(SCHEMA, of="shop.others"),
        replace(ENDPOINT, of="shop.orders/audit"),
    ],
    ids=["later", "long before", "another topic", "another subscription"],
)
def test_a_change_that_cannot_be_it_is_not_named(change: SettingsChange) -> None:
    assert said(change).endswith("one subscription: nothing stands out")


def test_a_change_of_one_subscription_does_not_explain_failures_of_several() -> None:
    found = said(ENDPOINT, subscriptions=3, pattern=FailurePattern.ONE_SHAPE)
    assert "3 subscriptions: the publisher" in found


def test_without_a_change_the_messages_or_the_pattern_say_where_to_look() -> None:
    value = replace(WITHOUT, present=True, value="PL", field="country", passing=0.1)
    assert said(fields=(value,)).endswith(
        "mostly messages with `country` = PL, one subscription: the publisher: messages of this"
        " form fail, and others pass"
    )
    assert "the subscriber:" in said(pattern=FailurePattern.ONE_SUBSCRIPTION)


def test_failures_from_the_start_on_may_have_begun_before() -> None:
    assert "400 in all of the time, " in said(first_at=NOON + BEGUN_BEFORE / 2)
    assert said(status=None).startswith("bad since")


def test_changes_are_what_differs_before_and_after() -> None:
    def event(before: dict[str, Any] | None, after: dict[str, Any] | None) -> AuditEvent:
        change = Change(
            action=Action.UPDATED, kind="topic", name="shop.orders", before=before, after=after
        )
        return AuditEvent(id=1, at=NOON, actor="a", key_id=None, change=change)

    same = {"description": "x", "modifiedAt": 1}
    events = [
        event(None, same),
        event(same, same | {"modifiedAt": 2}),
        event(same | {"schemaVersion": 1}, same | {"schema": "{}", "schemaVersion": 2}),
        event(same, same | {"description": "y"}),
    ]
    assert changes_of(events) == [
        SettingsChange(of="shop.orders", at=NOON, settings=("schema",), version=2),
        SettingsChange(of="shop.orders", at=NOON, settings=("description",)),
    ]
