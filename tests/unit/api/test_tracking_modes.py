"""`trackingMode` and `trackingEnabled`, as clients of several ages say them."""

from typing import Any

import pytest

from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.api.management.catalogue.topic_bodies import changed_topic, new_topic, topic_read
from app.domain.catalogue.subscription import State
from app.domain.trace import TrackingMode

SAID: list[tuple[dict[str, Any], TrackingMode]] = [
    ({}, TrackingMode.OFF),
    ({"trackingEnabled": True}, TrackingMode.ALL),
    ({"trackingEnabled": False}, TrackingMode.OFF),
    ({"trackingMode": "discardedOnly"}, TrackingMode.DISCARDED),
    ({"trackingMode": "discardedOnly", "trackingEnabled": True}, TrackingMode.DISCARDED),
    ({"trackingMode": "trackingOff", "trackingEnabled": True}, TrackingMode.OFF),
    ({"trackingMode": None, "trackingEnabled": True}, TrackingMode.ALL),
]

PATCHED: list[tuple[TrackingMode, dict[str, Any], TrackingMode]] = [
    (TrackingMode.OFF, {"trackingEnabled": True}, TrackingMode.ALL),
    (TrackingMode.DISCARDED, {"trackingEnabled": True}, TrackingMode.DISCARDED),
    (TrackingMode.DISCARDED, {"trackingEnabled": False}, TrackingMode.OFF),
    (TrackingMode.ALL, {"trackingEnabled": None}, TrackingMode.ALL),
    (TrackingMode.ALL, {"trackingMode": None}, TrackingMode.OFF),
    (TrackingMode.ALL, {"description": "x"}, TrackingMode.ALL),
    (TrackingMode.ALL, {"trackingMode": "discardedOnly"}, TrackingMode.DISCARDED),
]


@pytest.mark.parametrize(("body", "mode"), SAID)
def test_a_body_may_say_the_mode_in_either_way(body: dict[str, Any], mode: TrackingMode) -> None:
    subscription = {"name": "s", "endpoint": "http://h.test/"}
    assert new_subscription("a.b", subscription | body, strict=True).tracking is mode
    assert new_topic({"name": "a.b"} | body, strict=True).tracking is mode


@pytest.mark.parametrize(("before", "patch", "after"), PATCHED)
def test_a_patch_changes_what_it_names(
    before: TrackingMode, patch: dict[str, Any], after: TrackingMode
) -> None:
    body = {"trackingMode": before.value}
    subscription = new_subscription(
        "a.b", {"name": "s", "endpoint": "http://h.test/"} | body, strict=True
    )
    assert changed_subscription(subscription, patch, strict=True).tracking is after
    topic = new_topic({"name": "a.b"} | body, strict=True)
    assert changed_topic(topic, patch, strict=True).tracking is after


@pytest.mark.parametrize("mode", TrackingMode)
def test_both_fields_are_answered(mode: TrackingMode) -> None:
    body = {"trackingMode": mode.value}
    subscription = new_subscription(
        "a.b", {"name": "s", "endpoint": "http://h.test/"} | body, strict=True
    )
    topic = topic_read(new_topic({"name": "a.b"} | body, strict=True)).answered()
    for read in (subscription_read(subscription, State.ACTIVE).answered(), topic):
        assert read["trackingMode"] == mode.value
        assert read["trackingEnabled"] is (mode is not TrackingMode.OFF)
