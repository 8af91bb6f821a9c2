from dataclasses import replace
from typing import Any

import pytest

from app.api.bodies.base import Ignored
from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    ignored_in_subscription,
    new_subscription,
)
from app.api.management.catalogue.topic_bodies import ignored_in_topic, new_topic
from app.domain.catalogue.subscription import EndpointMode
from app.domain.errors import ValidationFailedError

SUBSCRIPTION = {"name": "s", "endpoint": "http://h.test/"}
TOPIC = {"name": "a.b"}

HAS_NO_EFFECT: list[dict[str, Any]] = [
    {"profilingEnabled": True},
    {"metricsConfig": {"messageProcessing": {"enabled": True}}},
    {"unknown": 1},
    {"subscriptionPolicy": {"socketTimeout": 50}},
]


def path_of(body: dict[str, Any]) -> str:
    ((name, value),) = body.items()
    return f"{name}.{path_of(value)}" if name == "subscriptionPolicy" else name


@pytest.mark.parametrize("extra", HAS_NO_EFFECT, ids=path_of)
def test_what_has_no_effect_is_named_or_strictly_refused(extra: dict[str, Any]) -> None:
    body = SUBSCRIPTION | extra
    new_subscription("a.b", body, strict=False)
    assert [each.path for each in ignored_in_subscription(body)] == [path_of(extra)]
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", body, strict=True)
    assert [problem.path for problem in refused.value.details] == [path_of(extra)]


def test_null_means_the_default_for_fields_that_are_not_supported_too() -> None:
    body = SUBSCRIPTION | {"profilingEnabled": None}
    new_subscription("a.b", body, strict=True)
    assert ignored_in_subscription(body) == ()


def test_batches_go_to_one_address_whatever_is_asked_for_as_in_hermes() -> None:
    body = SUBSCRIPTION | {"mode": "BROADCAST"}
    made = new_subscription("a.b", body, strict=True)
    assert made.mode is EndpointMode.BROADCAST
    batched = new_subscription("a.b", body | {"deliveryType": "BATCH"}, strict=True)
    assert batched.mode is EndpointMode.ANYCAST
    assert changed_subscription(made, {"deliveryType": "BATCH"}, strict=True).mode == "ANYCAST"
    with pytest.raises(ValidationFailedError, match="mode must be ANYCAST when deliveryType"):
        replace(batched, mode=EndpointMode.BROADCAST)


@pytest.mark.parametrize(
    "extra",
    [
        {"chaos": {"mode": "GLOBAL"}},
    ],
    ids=path_of,
)
def test_what_would_change_publishing_is_refused_and_named(extra: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_topic(TOPIC | extra, strict=False)
    assert [problem.path for problem in refused.value.details] == [path_of(extra)]


def test_a_topics_fields_without_effect_are_named() -> None:
    body = TOPIC | {"jsonToAvroDryRun": True, "labels": [], "x": {"y": 1}}
    assert ignored_in_topic(body) == (Ignored("jsonToAvroDryRun"), Ignored("x"))
