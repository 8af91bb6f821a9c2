"""Traces in responses: Hermes' PublishedMessageTrace and SentMessageTrace, with more fields."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from app.api.bodies.base import JsonObject, Schema
from app.api.management.discards.undelivered_bodies import CLUSTER, epoch_ms
from app.domain.trace import TraceEntry, TraceStatus

_MILLISECOND = timedelta(milliseconds=1)


class TraceRead(Schema):
    """One event of a message; without `subscription` it is the publication.

    Durations are in milliseconds.
    """

    message_id: str
    timestamp: int = Field(description="ms since the epoch")
    topic_name: str
    subscription: str | None = None
    status: TraceStatus
    reason: str | None = None
    partition: int | None = None
    offset: int | None = None
    cluster: Literal["primary"] = CLUSTER
    batch_id: str | None = None
    attempt: int | None = Field(default=None, description="1 is the first")
    status_code: int | None = Field(default=None, description="the subscriber's answer")
    queued: float | None = Field(default=None, description="in the log, until it was taken")
    waited: float | None = Field(
        default=None, description="from then, or from the last attempt, until it was sent"
    )
    took: float | None = Field(default=None, description="from then to the attempt's end")
    connect: float | None = Field(
        default=None, description="of what it took: until the request was written"
    )
    worker: str | None = Field(default=None, description="the process that says so")
    address: str | None = Field(default=None, description="where the request went")
    retransmission: str | None = Field(
        default=None, description="the one that the message was sent again by"
    )


def trace_answered(entry: TraceEntry) -> JsonObject:
    """Return one entry of a trace as the JSON of a TraceRead.

    The JSON is built without the model, because the model is slow.
    """
    fields = {
        "messageId": entry.message_id,
        "timestamp": epoch_ms(entry.at),
        "topicName": entry.source.topic,
        "subscription": entry.source.subscription or None,
        "status": entry.status.value,
        "reason": entry.reason or None,
        "partition": entry.partition if entry.partition >= 0 else None,
        "offset": entry.offset if entry.offset >= 0 else None,
        "cluster": CLUSTER,
        "batchId": entry.batch_id or None,
        "attempt": entry.attempt or None,
        "statusCode": entry.status_code,
        "queued": _milliseconds(entry.queued),
        "waited": _milliseconds(entry.waited),
        "took": _milliseconds(entry.took),
        "connect": _milliseconds(entry.connect),
        "worker": entry.worker or None,
        "address": entry.address or None,
        "retransmission": entry.retransmission or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _milliseconds(span: timedelta | None) -> float | None:
    return None if span is None else round(span / _MILLISECOND, 3)
