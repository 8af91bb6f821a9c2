"""A field that no object has: where it is refused, where it is ignored, and what was meant."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pydantic import BaseModel

from app.api.bodies.base import (
    NEAREST_MAX,
    Ignored,
    OwnSchema,
    Schema,
    ignored_fields,
    parse_own,
)
from app.api.management.catalogue.subscription_bodies import (
    OTHER_FIELDS,
    NewSubscriptionBody,
    changed_subscription,
    ignored_in_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.api.management.catalogue.topic_bodies import OTHER_FIELDS as TOPICS
from app.api.management.catalogue.topic_bodies import TopicBody, ignored_in_topic
from app.api.management.fields.circuit import CircuitBreakerBody
from app.api.management.fields.policy import PolicyBody
from app.domain.catalogue.subscription import State
from app.domain.errors import ValidationFailedError
from tests.unit.test_field_errors import bodies

NEW: Final = {"name": "s", "endpoint": "http://h.test/"}


def names_of(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def slips_of(name: str) -> Iterator[str]:
    """How `name` is misspelt: a prefix, a plural, a letter doubled, left out, or small."""
    middle = len(name) // 2
    if len(name) > len("partition"):
        yield f"on{name[0].upper()}{name[1:]}"
    yield f"{name}s"
    yield name[:middle] + name[middle] + name[middle:]
    yield name[: middle - 1] + name[middle:]
    yield name.lower()
    yield "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def misspelt(model: type[Schema]) -> Iterator[tuple[str, str]]:
    """Slips that are no field, with the field that is meant; short names can mean many."""
    known = set(names_of(model))
    for name in known:
        for slip in slips_of(name) if len(name) > 4 else ():
            if slip not in known:
                yield slip, name


def refusals(model: type[OwnSchema], body: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationFailedError) as refused:
        parse_own(model, body)
    return {each.path: each.message for each in refused.value.details}


def test_each_misspelt_field_of_an_object_of_ours_is_refused_with_the_one_that_is_meant() -> None:
    own = [model for model in set(bodies()) if issubclass(model, OwnSchema)]
    assert len(own) > 10
    for model in own:
        for slip, meant in misspelt(model):
            message = f"is not a known field: did you mean {meant}?"
            assert refusals(model, {slip: 1})[slip] == message, (model, slip)


def test_each_misspelt_field_of_an_object_of_hermes_is_ignored_and_the_one_meant_is_named() -> None:
    for model, others in ((TopicBody, TOPICS), (NewSubscriptionBody, OTHER_FIELDS)):
        for slip, meant in misspelt(model):
            assert ignored_fields(model, {slip: 1}, others) == (Ignored(slip, meant),)
    for slip, meant in misspelt(PolicyBody):
        found = ignored_in_subscription({"subscriptionPolicy": {slip: 1}})
        assert found == (Ignored(f"subscriptionPolicy.{slip}", meant),)


@pytest.mark.parametrize(
    ("body", "path", "meant"),
    [
        ({"maxRetries": 3}, "maxRetries", "subscriptionPolicy.maxRetries"),
        ({"subscriptionPolicy": {"ordering": 1}}, "subscriptionPolicy.ordering", "ordering"),
        ({"headers": [{"name": "a", "vlaue": "b"}]}, "headers.0.vlaue", "value"),
        ({"color": 1}, "color", None),
        ({"x" * 100_000: 1}, "x" * 100_000, None),
    ],
)
def test_a_field_in_the_wrong_place_is_named_where_it_belongs(
    body: dict[str, Any], path: str, meant: str | None
) -> None:
    assert ignored_in_subscription(body) == (Ignored(path, meant),)


def test_what_hermes_has_and_is_not_supported_is_no_slip() -> None:
    assert ignored_in_topic({"jsonToAvroDryRun": True}) == (Ignored("jsonToAvroDryRun"),)


def test_a_name_in_the_words_of_python_has_no_effect_in_an_object_of_hermes() -> None:
    body = NEW | {"subscriptionPolicy": {"max_retries": 3}}
    assert new_subscription("a.b", body, strict=False).policy.max_retries is None
    assert ignored_in_subscription(body) == (
        Ignored("subscriptionPolicy.max_retries", "maxRetries"),
    )


def test_objects_of_ours_in_a_subscription_are_checked_where_they_are() -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription(
            "a.b",
            NEW
            | {
                "circuitBreaker": {"onErrorTypes": ["TIMEOUT"]},
                "fetch": {"pollsize": 3},
                "filters": [{"type": "header", "header": "h", "macher": "x"}],
            },
            strict=False,
        )
    assert {each.path: each.message for each in refused.value.details} == {
        "filters.0.macher": "is not a known field: did you mean matcher?",
        "circuitBreaker.onErrorTypes": "is not a known field: did you mean errorTypes?",
        "fetch.pollsize": "is not a known field: did you mean pollSize?",
    }


def test_a_subscription_is_changed_by_the_answer_to_who_read_it() -> None:
    body = NEW | {
        "circuitBreaker": {},
        "fetch": {},
        "deadLetter": {"topic": "a.dead"},
        "filters": [{"type": "header", "header": "h", "matcher": "x"}],
    }
    made = new_subscription("a.b", body, strict=True)
    answer = subscription_read(made, State.ACTIVE).answered()
    assert changed_subscription(made, answer, strict=True) == made


def test_of_many_unknown_fields_the_first_are_compared_with_those_that_there_are() -> None:
    found = refusals(CircuitBreakerBody, {f"errorTypes{n}": 1 for n in range(NEAREST_MAX + 1)})
    assert found[f"errorTypes{NEAREST_MAX - 1}"].endswith("did you mean errorTypes?")
    assert found[f"errorTypes{NEAREST_MAX}"] == "is not a known field"
