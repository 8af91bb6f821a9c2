"""Undelivered messages in responses (Hermes' SentMessageTrace, with more fields)."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from pydantic import Field

from app.api.bodies.base import JsonObject, Schema
from app.domain.catalogue.operations import DATACENTER
from app.domain.discards.undelivered import Undelivered

CLUSTER: Final = DATACENTER

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class UndeliveredRead(Schema):
    """A discarded message: time, reason, position in the log, and body."""

    message_id: str
    timestamp: int = Field(description="ms since the epoch")
    subscription: str
    topic_name: str
    status: Literal["DISCARDED"] = "DISCARDED"
    reason: str
    message: str = Field(description="the body as text")
    partition: int
    offset: int
    cluster: Literal["primary"] = CLUSTER
    attempts: int
    message_base64: str | None = Field(default=None, description="the body, when it is not UTF-8")
    status_code: int | None = Field(default=None, description="the subscriber's last answer")
    last_failure: str | None = Field(
        default=None, description="why the last attempt failed, if statusCode does not say it"
    )
    answer: str | None = Field(default=None, description="the start of its body, if it is text")
    redriven_at: int | None = Field(default=None, description="when sent again, ms since the epoch")


def undelivered_answered(item: Undelivered) -> JsonObject:
    """Return one discard as the JSON of an UndeliveredRead.

    The JSON is built without the model, because the model is slow.
    """
    text, other = _as_text(item.body)
    fields: JsonObject = {
        "messageId": item.message_id,
        "timestamp": epoch_ms(item.discarded_at),
        "subscription": item.subscription,
        "topicName": item.topic,
        "status": "DISCARDED",
        "reason": item.reason,
        "message": text,
        "partition": item.partition,
        "offset": item.offset,
        "cluster": CLUSTER,
        "attempts": item.attempts,
    }
    if other is not None:
        fields["messageBase64"] = other
    if item.status is not None:
        fields["statusCode"] = item.status
    if item.last_failure:
        fields["lastFailure"] = item.last_failure
    if item.answer:
        fields["answer"] = item.answer
    if item.redriven_at is not None:
        fields["redrivenAt"] = epoch_ms(item.redriven_at)
    return fields


def in_base64(body: bytes) -> str | None:
    """Return the base64 of a body that is not UTF-8; None for other bodies."""
    return _as_text(body)[1]


def _as_text(body: bytes) -> tuple[str, str | None]:
    """Return the body as text, and None or the body in base64.

    Base64 is returned if the text does not have exactly the bytes of the body.
    """
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return body.decode(errors="replace"), b64encode(body).decode()


def epoch_ms(moment: datetime) -> int:
    """Return the time in milliseconds since the epoch."""
    return (moment - _EPOCH) // _MILLISECOND
