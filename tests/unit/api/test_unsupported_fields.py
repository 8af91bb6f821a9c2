from typing import Any

import pytest

from app.api.schemas.subscription import ignored_in_subscription, new_subscription
from app.api.schemas.topic import ignored_in_topic, new_topic
from app.domain.errors import ValidationFailedError

SUBSCRIPTION = {"name": "s", "endpoint": "http://h.test/"}
TOPIC = {"name": "a.b"}

WOULD_CHANGE_DELIVERY: list[dict[str, Any]] = [
    {"mode": "BROADCAST"},
]
HAS_NO_EFFECT: list[dict[str, Any]] = [
    {"profilingEnabled": True},
    {"metricsConfig": {"messageProcessing": {"enabled": True}}},
    {"unknown": 1},
    {"subscriptionPolicy": {"socketTimeout": 50}},
]


def path_of(body: dict[str, Any]) -> str:
    ((name, value),) = body.items()
    return f"{name}.{path_of(value)}" if name == "subscriptionPolicy" else name


@pytest.mark.parametrize("extra", WOULD_CHANGE_DELIVERY, ids=path_of)
def test_what_would_change_delivery_is_refused_and_named(extra: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", SUBSCRIPTION | extra, strict=False)
    assert [problem.path for problem in refused.value.details] == [path_of(extra)]


@pytest.mark.parametrize("extra", HAS_NO_EFFECT, ids=path_of)
def test_what_has_no_effect_is_named_or_strictly_refused(extra: dict[str, Any]) -> None:
    body = SUBSCRIPTION | extra
    new_subscription("a.b", body, strict=False)
    assert ignored_in_subscription(body) == (path_of(extra),)
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", body, strict=True)
    assert [problem.path for problem in refused.value.details] == [path_of(extra)]


@pytest.mark.parametrize("name", [each for body in WOULD_CHANGE_DELIVERY for each in body])
def test_null_means_the_default_for_fields_that_are_not_supported_too(name: str) -> None:
    body = SUBSCRIPTION | {name: None}
    new_subscription("a.b", body, strict=True)
    assert ignored_in_subscription(body) == ()


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
    assert ignored_in_topic(body) == ("jsonToAvroDryRun", "x")
