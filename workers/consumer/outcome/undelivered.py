"""Appends discarded messages to the stream of undelivered messages, which the recorder reads."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Discarded
from app.domain.discards.undelivered import Undelivered, to_record
from app.domain.errors import AngeliaError
from app.domain.message import Message
from app.domain.streams import UNDELIVERED
from app.log.interface import MessageLog
from workers.consumer.schedule.delivery_job import DeliveryJob

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class UndeliveredLog(Protocol):
    """The store of discarded messages."""

    async def write(self, undelivered: Undelivered) -> None:
        """Store the discarded message. While the log is down, wait and try again."""


class UndeliveredStream:
    """The stream of undelivered messages in the log.

    While the log is down, a discarded message stays open, so deliveries must wait.
    """

    def __init__(self, log: MessageLog) -> None:
        self._log = log

    async def write(self, undelivered: Undelivered) -> None:
        """Append the record, and repeat this until the log acknowledges it.

        The recorder recognises repeated records.
        """
        record = to_record(undelivered)
        while True:
            try:
                await self._log.append(UNDELIVERED, [record])
            except AngeliaError as exc:
                _log.warning(
                    "undelivered_write_failed", error=exc.message, **of_message(undelivered)
                )
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
            else:
                return


def of_message(undelivered: Undelivered) -> Mapping[str, str]:
    """Return the fields that identify a message in the log lines of this process."""
    return {
        "message_id": undelivered.message_id,
        "subscription": f"{undelivered.topic}_{undelivered.subscription}",
    }


def undelivered_of(
    job: DeliveryJob, discarded: Discarded, subscription: Subscription
) -> Undelivered:
    """Return the undelivered message to record for `job`, which `subscription` discards now."""
    bare = bare_undelivered_of(job, discarded, subscription)
    return replace(bare, body=job.message.stored, headers=_shown(job.message))


def bare_undelivered_of(
    job: DeliveryJob, discarded: Discarded, subscription: Subscription
) -> Undelivered:
    """Return the undelivered message to record for `job`, without headers, with the raw body.

    Nothing of the message is parsed, so an error in the message cannot prevent the record.
    """
    message = job.message
    return Undelivered(
        subscription_id=subscription.id,
        topic=subscription.topic,
        subscription=subscription.name,
        message_id=message.id.decode("utf-8", "replace"),
        discarded_at=datetime.now(UTC),
        reason=discarded.reason,
        status=discarded.status,
        last_failure=job.last_failure.reason,
        answer=job.last_failure.answer,
        attempts=job.attempts,
        partition=message.partition.index,
        offset=message.offset,
        body=message.raw,
        key=message.key,
        producer_epoch=job.cursor.producer_epoch,
        retransmission="" if message.record_target is None else message.record_target.job_id,
    )


def _shown(message: Message) -> tuple[tuple[str, str], ...]:
    own = (b"Content-Type", message.content_type)
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in (own, *message.propagated)
    )
