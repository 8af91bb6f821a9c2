import pytest

from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.domain.catalogue.subscription import PARKED_KEYS_MAX, Ordering, State
from app.domain.errors import ValidationFailedError

BODY = {"name": "s", "endpoint": "http://h.test/"}


@pytest.mark.parametrize("ordering", list(Ordering))
def test_an_ordering_is_answered_as_it_was_given(ordering: Ordering) -> None:
    policy = {"parkedKeysMax": 5}
    given = BODY | {"ordering": ordering.value, "subscriptionPolicy": policy}
    made = new_subscription("a.b", given, strict=True)
    read = subscription_read(made, State.ACTIVE).answered()
    assert (made.ordering, made.policy.parked_keys_max) == (ordering, 5)
    assert (read["ordering"], read["subscriptionPolicy"]["parkedKeysMax"]) == (ordering.value, 5)
    assert changed_subscription(made, {"ordering": None}, strict=True).ordering is Ordering.NONE


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"ordering": "key"}, "ordering"),
        ({"subscriptionPolicy": {"parkedKeysMax": 0}}, "subscriptionPolicy.parkedKeysMax"),
        (
            {"subscriptionPolicy": {"parkedKeysMax": PARKED_KEYS_MAX + 1}},
            "subscriptionPolicy.parkedKeysMax",
        ),
    ],
)
def test_a_wrong_ordering_is_refused_and_named(wrong: dict[str, object], path: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", BODY | wrong, strict=False)
    assert [problem.path for problem in refused.value.details] == [path]
