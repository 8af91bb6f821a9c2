"""A discarded message with everything that is needed to understand it and to send it again."""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.message import NewRecord, Record

HEADER_UNDELIVERED: Final = b"u"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """One discard of one message by one subscription.

    Attributes:
        status: The last response status; None if there was no response.
        key: The message's partition key.
        redriven_at: When the message was sent again, if known.
        producer_epoch: The producer epoch of the cursor that recorded the discard; "" if unknown
            (app.domain.discards.retractions).
        retransmission: The id of the retransmission that put this message into the log; "" if none
            did.
    """

    subscription_id: str
    topic: str
    subscription: str
    message_id: str
    discarded_at: datetime
    reason: str
    status: int | None
    attempts: int
    partition: int
    offset: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    key: bytes | None = None
    redriven_at: datetime | None = None
    producer_epoch: str = ""
    retransmission: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOrSubscription:
    """A topic, or one of its subscriptions, by current names."""

    topic: str
    subscription: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredFilter:
    """Selects discards that match all given fields. None selects all.

    Attributes:
        scope: The topic or subscription that has this name now. If there is none, nothing matches.
        subscription_id: The id of the subscription.
        topic: The name that the topic had.
        since: The earliest time of the discard.
        until: The time before which the discard happened.
        status: The last response status.
        reason: A part of the discard's reason. The case of letters does not matter.
        key: The whole partition key.
        message_id: The id of the message.
        text: A part of the body.
    """

    scope: TopicOrSubscription | None = None
    subscription_id: str | None = None
    topic: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    status: int | None = None
    reason: str | None = None
    key: bytes | None = None
    message_id: str | None = None
    text: bytes | None = None


def to_record(undelivered: Undelivered) -> NewRecord:
    """Return the record for the undelivered stream.

    The record has the body unchanged, and all other fields as JSON in the header `u`. All records
    of a subscription have the same key, so that they stay in order.
    """
    described = {
        "subscriptionId": undelivered.subscription_id,
        "topic": undelivered.topic,
        "subscription": undelivered.subscription,
        "messageId": undelivered.message_id,
        "discardedAt": undelivered.discarded_at.isoformat(),
        "reason": undelivered.reason,
        "status": undelivered.status,
        "attempts": undelivered.attempts,
        "partition": undelivered.partition,
        "offset": undelivered.offset,
        "headers": undelivered.headers,
        "key": None if undelivered.key is None else b64encode(undelivered.key).decode("ascii"),
        "life": undelivered.producer_epoch,
        "retransmission": undelivered.retransmission,
    }
    return NewRecord(
        key=undelivered.subscription_id.encode("ascii"),
        value=undelivered.body,
        headers=((HEADER_UNDELIVERED, json.dumps(described).encode("ascii")),),
    )


def from_record(record: Record) -> Undelivered | None:
    """Return the discard in a record made by `to_record`; None for another record."""
    described = record.header(HEADER_UNDELIVERED)
    if described is None:
        return None
    try:
        parts = json.loads(described)
        return Undelivered(
            subscription_id=parts["subscriptionId"],
            topic=parts["topic"],
            subscription=parts["subscription"],
            message_id=parts["messageId"],
            discarded_at=datetime.fromisoformat(parts["discardedAt"]),
            reason=parts["reason"],
            status=parts["status"],
            attempts=parts["attempts"],
            partition=parts["partition"],
            offset=parts["offset"],
            body=record.value or b"",
            headers=tuple((name, value) for name, value in parts["headers"]),
            # Use "" for records of older versions, which have no producer epoch.
            key=None if parts.get("key") is None else b64decode(parts["key"]),
            producer_epoch=parts.get("life", ""),
            retransmission=parts.get("retransmission", ""),
        )
    except (ValueError, KeyError, TypeError):
        return None
