import pytest

from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.domain.catalogue.subscription import ContentMode, State
from app.domain.errors import ValidationFailedError

BODY = {"name": "s", "endpoint": "http://h.test/"}
TYPED = {"headers": [{"name": "content-TYPE", "value": "a/b"}]}


@pytest.mark.parametrize("mode", list(ContentMode))
def test_a_content_mode_is_answered_as_it_was_given(mode: ContentMode) -> None:
    made = new_subscription("a.b", BODY | {"contentMode": mode.value}, strict=True)
    assert made.content_mode is mode
    assert subscription_read(made, State.ACTIVE).answered()["contentMode"] == mode.value
    reset = changed_subscription(made, {"contentMode": None}, strict=True)
    assert reset.content_mode is ContentMode.PLAIN


@pytest.mark.parametrize(
    ("wrong", "path", "problem"),
    [
        (
            {"contentMode": "BINARY"},
            "contentMode",
            "must be 'PLAIN', 'CE_BINARY' or 'CE_STRUCTURED'",
        ),
        (
            {"contentMode": "CE_BINARY", "deliveryType": "BATCH"},
            "contentMode",
            "must be PLAIN or CE_STRUCTURED when deliveryType is BATCH",
        ),
        (
            {"contentMode": "CE_STRUCTURED"} | TYPED,
            "headers",
            "must be without Content-Type unless contentMode is PLAIN",
        ),
    ],
)
def test_a_wrong_content_mode_is_refused_and_named(
    wrong: dict[str, object], path: str, problem: str
) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", BODY | wrong, strict=False)
    (only,) = refused.value.details
    assert (only.path, only.message) == (path, problem)


def test_batches_of_events_are_asked_for_by_the_content_mode() -> None:
    events = {"contentMode": "CE_STRUCTURED", "deliveryType": "BATCH", "batchFormat": "NDJSON"}
    made = new_subscription("a.b", BODY | events, strict=True)
    assert made.batching is not None
    assert made.batching.events
    plain = changed_subscription(made, {"contentMode": "PLAIN"}, strict=True)
    assert plain.batching is not None
    assert not plain.batching.events
