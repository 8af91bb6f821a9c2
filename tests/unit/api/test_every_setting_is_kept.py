"""Every setting of a subscription is answered as it was given.

The settings are found in the schema: one that gets lost on its way needs no row here to be found.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.api.bodies.problems import schema_in
from app.api.management.catalogue.subscription_bodies import SubscriptionBody, new_subscription
from app.api.management.catalogue.subscription_read import subscription_read

BODY: Final = {"name": "s", "endpoint": "http://h.test/"}
# Settings that not every value of their type fits, and objects that are absent by default.
SAMPLES: Final[Mapping[str, object]] = {
    "topicName": "shop.orders",
    "endpoint": "http://other.test/",
    "failureExpression": "status == 299",
    "filters": [{"type": "cel", "expression": "body.n == 1"}],
    "fetch.fetchSize": 1,  # 0 is Hermes' way to ask for another mode
    "deadLetter": {"topic": "shop.dead"},
    "circuitBreaker": {
        "errorTypes": ["TIMEOUT"],
        "errorsThreshold": 7,
        "tripTimeout": 7,
        "tripTimeoutUnit": "MINUTES",
        "circuitName": "shop",
    },
    "retryableStatusCodes": [408, 409],
    "endpointAddressResolverMetadata": {"a": 1},
}
# Answers mask what is in these; `tests/integration/api` has tests of their own.
MASKED: Final = frozenset({"headers", "clientCertificate", "oAuthPolicy"})


def others(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, object]]:
    """The path of each setting in `model`, and a value that is not its default."""
    for name, info in model.model_fields.items():
        path = f"{above}{info.alias or name}"
        inner = schema_in(info.annotation)
        if path in SAMPLES:
            yield path, SAMPLES[path]
        elif inner is None:
            yield path, other(path, info)
        elif path not in MASKED:
            yield from others(inner, f"{path}.")


def other(path: str, info: FieldInfo) -> object:
    """A value that is not the default: a bound of a number, another choice, a text."""
    kinds = (info.annotation, *get_args(info.annotation))
    bounds = [
        each.ge if isinstance(each, Ge) else each.le
        for each in info.metadata
        if isinstance(each, Ge | Le)
    ]
    if bool in kinds:
        return not info.default
    if literal := [kind for kind in kinds if get_origin(kind) is Literal]:
        bounds = [*get_args(literal[0])[::-1]]
    elif not bounds and info.annotation not in {int, float}:
        bounds = ["other"]
    found = [each for each in bounds if each != info.default]
    assert found, f"give {path} a value in SAMPLES that is not its default"
    return found[0]


@pytest.mark.parametrize(("path", "value"), [*others(SubscriptionBody)], ids=str)
def test_a_setting_is_answered_as_it_was_given(path: str, value: object) -> None:
    outer, _, inner = path.partition(".")
    body = BODY | {outer: {inner: value} if inner else value}
    made = new_subscription("shop.orders", body, strict=True)
    read: Any = subscription_read(made, made.state).answered()
    assert (read[outer][inner] if inner else read[outer]) == value, (
        "a `to_domain` of the body or the answer (`subscription_read`) loses it"
    )
