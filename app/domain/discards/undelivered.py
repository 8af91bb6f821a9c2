"""A discarded message, with all that people need to understand it and to send it again."""

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
        last_failure: Why the last attempt failed; "" if `status` or `reason` says it, or if it is
            unknown.
        answer: The start of the last response's body; "" if it was not text, or is unknown.
        key: The message's partition key.
        redriven_at: When the message was sent again; None if it was not, or if this is not known.
        producer_epoch: The producer epoch of the cursor that recorded the discard
            (app.domain.discards.retractions); "" if it is unknown.
        retransmission: The id of the retransmission that sent this message; "" if the message is
            not from a retransmission.
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
    last_failure: str = ""
    answer: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    key: bytes | None = None
    redriven_at: datetime | None = None
    producer_epoch: str = ""
    retransmission: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOrSubscription:
    """A topic, or one subscription of the topic, with the names that they have now."""

    topic: str
    subscription: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredFilter:
    """Selects discards. A discard must match all fields; None matches everything.

    Attributes:
        scope: The topic or subscription that has this name now. If it does not exist now, no
            discard matches.
        subscription_id: The id of the subscription.
        topic: The name that the topic had at the time of the discard.
        since: The earliest time of the discard.
        until: The time before which the discard happened.
        status: The last response status.
        reason: A text that the reason of the discard contains, in upper or lower case.
        key: The partition key of the message.
        message_id: The id of the message.
        text: A text that the body of the message contains.
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
    """Return the record of a discard for the undelivered stream.

    The record has the message's body unchanged. Its header `u` has all other fields as JSON. All
    records of a subscription have the same key, so that they stay in order.
    """
    described = {
        "subscriptionId": undelivered.subscription_id,
        "topic": undelivered.topic,
        "subscription": undelivered.subscription,
        "messageId": undelivered.message_id,
        "discardedAt": undelivered.discarded_at.isoformat(),
        "reason": undelivered.reason,
        "status": undelivered.status,
        "lastFailure": undelivered.last_failure,
        "answer": undelivered.answer,
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
    """Return the discard in `record`; None if `to_record` did not make the record."""
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
            # Records of older versions have no last failure, no answer, no partition key, no
            # producer epoch and no retransmission. These fields are then None or empty.
            last_failure=parts.get("lastFailure", ""),
            answer=parts.get("answer", ""),
            key=None if parts.get("key") is None else b64decode(parts["key"]),
            producer_epoch=parts.get("life", ""),
            retransmission=parts.get("retransmission", ""),
        )
    except (ValueError, KeyError, TypeError):
        return None
