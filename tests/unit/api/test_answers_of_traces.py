"""What is answered of traces and discards is what its model says, field by field and in order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from app.api.bodies.base import JsonObject, Schema
from app.api.management.discards.undelivered_bodies import UndeliveredRead, undelivered_answered
from app.api.management.inspection.trace_bodies import TraceRead, trace_answered
from app.domain.discards.undelivered import Undelivered
from app.domain.trace import TraceEntry, TraceSource, TraceStatus

AT = datetime(2026, 1, 1, 12, 30, 15, 123_456, tzinfo=UTC)
BARE = TraceEntry(
    source=TraceSource(topic="a.b"), message_id="m", at=AT, status=TraceStatus.SUCCESS
)
FULL = TraceEntry(
    source=TraceSource(topic="a.b", subscription_id="s", subscription="n"),
    message_id="m",
    at=AT,
    status=TraceStatus.FAILED,
    partition=0,
    offset=0,
    attempt=1,
    status_code=503,
    reason="no",
    queued=timedelta(),
    waited=timedelta(microseconds=1),
    connect=timedelta(milliseconds=1.5),
    took=timedelta(hours=1),
    worker="w",
    address="127.0.0.1:80",
    batch_id="b",
    retransmission="r",
)
DISCARD = Undelivered(
    subscription_id="s",
    topic="a.b",
    subscription="n",
    message_id="m",
    discarded_at=AT,
    reason="",
    status=None,
    attempts=0,
    partition=0,
    offset=0,
    body=b"",
)
FULL_DISCARD = replace(
    DISCARD, status=404, last_failure="late", answer="who?", body=b"\xff", redriven_at=AT
)


def by_model(model: type[Schema], said: JsonObject) -> list[tuple[str, object]]:
    """As the model would answer it."""
    return list(model.model_validate_json(orjson.dumps(said)).answered().items())


@pytest.mark.parametrize("entry", [BARE, FULL], ids=["bare", "full"])
def test_an_entry_is_answered_as_its_model_says(entry: TraceEntry) -> None:
    said = trace_answered(entry)
    assert list(said.items()) == by_model(TraceRead, said)


def test_a_full_entry_has_every_field() -> None:
    names = {field.alias for field in TraceRead.model_fields.values()}
    assert trace_answered(FULL).keys() == names


@pytest.mark.parametrize(
    "discard",
    [DISCARD, FULL_DISCARD],
    ids=["bare", "full"],
)
def test_a_discard_is_answered_as_its_model_says(discard: Undelivered) -> None:
    said = undelivered_answered(discard)
    assert list(said.items()) == by_model(UndeliveredRead, said)


def test_a_full_discard_has_every_field() -> None:
    names = {field.alias for field in UndeliveredRead.model_fields.values()}
    assert undelivered_answered(FULL_DISCARD).keys() == names
