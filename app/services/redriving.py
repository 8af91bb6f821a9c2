"""Redrive: discarded messages are sent again, to the subscription that did not get them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final
from uuid import uuid4

import structlog

from app.domain.addressed import Addressed
from app.domain.audit import Action, Change
from app.domain.errors import AngeliaError, MessageTooLargeError
from app.domain.redrive import (
    REDRIVE_BYTES_MAX,
    REDRIVE_MESSAGES_MAX,
    Redrivable,
    RedriveFilter,
    redrive_record,
)
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from app.domain.undelivered import Undelivered
from app.log.interface import MessageLog
from app.services.audit import note
from app.storage.audit import AuditRepository
from app.storage.database import Database
from app.storage.redrives import RedriveRepository
from app.storage.subscriptions import SubscriptionRepository
from app.storage.topics import TopicRepository

# One call to the log: what is in memory at a time.
CALL_MESSAGES_MAX: Final = 100
CALL_BYTES_MAX: Final = 1024 * 1024
# One more than is sent says that there are more.
_LOOKED_AT: Final = REDRIVE_MESSAGES_MAX + 1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """What was sent again, or would be (`id` None), the oldest discards first.

    `more`: as many as one request sends are not all.
    """

    id: str | None
    messages: Sequence[Redrivable]
    more: bool


class RedriveService:
    """Appends discarded messages to their topic, addressed to their subscription alone."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def preview(self, topic: str, name: str, wanted: RedriveFilter) -> Redriven:
        """What `redrive` would send; it raises the same, but needs no log."""
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            found = await RedriveRepository(session).choose(
                subscription.id, wanted, limit=_LOOKED_AT, claim=False
            )
            chosen = _fitting(found, await TopicRepository(session).get(topic))
        return Redriven(id=None, messages=chosen, more=len(chosen) < len(found))

    async def redrive(self, topic: str, name: str, wanted: RedriveFilter) -> Redriven:
        """Send the wanted discards again, as many as one request may, whatever the state is.

        TopicNotFoundError, SubscriptionNotFoundError; MessageTooLargeError: the first of them is
        larger than its topic allows by now; LogUnavailableError. Then none counts as sent.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            redrives = RedriveRepository(session)
            # Claimed until the end, so that two requests at once do not send the same.
            found = await redrives.choose(subscription.id, wanted, limit=_LOOKED_AT)
            told = await TopicRepository(session).get(topic)
            addressed = Addressed(subscription.id, uuid4().hex)
            sent: list[Redrivable] = []
            for call in _calls(_fitting(found, told)):
                discards = await redrives.read([each.row for each in call])
                try:
                    await self._append(told, discards, addressed)
                except AngeliaError:
                    if not sent:
                        raise
                    break  # what was sent is marked all the same, or it would be sent twice
                # Only after the log has acknowledged them: a crash before this is committed has
                # the next redrive send them again; the other way round they would be lost.
                await redrives.mark([each.row for each in call], addressed.job_id)
                sent += call
            if sent:
                event = _change(subscription, addressed.job_id, sent)
                await note(AuditRepository(session), event)
        _log.info("redriven", topic=topic, subscription=name, messages=len(sent))
        job_id = addressed.job_id if sent else None
        return Redriven(id=job_id, messages=sent, more=len(sent) < len(found))

    async def _append(
        self, topic: Topic, discards: Sequence[Undelivered], addressed: Addressed
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        records = [redrive_record(each, addressed, now_ms=now_ms) for each in discards]
        await self._log.append(topic.name, records, ack=topic.ack)


def _change(subscription: Subscription, redrive_id: str, sent: Sequence[Redrivable]) -> Change:
    return Change(
        action=Action.REDRIVEN,
        kind="subscription",
        name=f"{subscription.topic}/{subscription.name}",
        after={"id": redrive_id, "messages": len(sent)},
    )


def _fitting(found: Sequence[Redrivable], topic: Topic) -> Sequence[Redrivable]:
    """The first of them: as many as one request sends and the topic takes."""
    chosen = found[:REDRIVE_MESSAGES_MAX]
    if chosen and chosen[0].size > topic.message_size_max:
        raise _too_large(chosen[0], topic)
    sizes = accumulate(each.size for each in chosen)
    for place, (each, size) in enumerate(zip(chosen, sizes, strict=True)):
        if each.size > topic.message_size_max or size > REDRIVE_BYTES_MAX:
            return chosen[:place]
    return chosen


def _calls(chosen: Sequence[Redrivable]) -> Iterator[Sequence[Redrivable]]:
    """Them as they are appended, in their order: one call ends before the next begins."""
    first, size = 0, 0
    for place, each in enumerate(chosen):
        full = place - first >= CALL_MESSAGES_MAX or size + each.size > CALL_BYTES_MAX
        if full and place > first:
            yield chosen[first:place]
            first, size = place, 0
        size += each.size
    if first < len(chosen):
        yield chosen[first:]


def _too_large(each: Redrivable, topic: Topic) -> MessageTooLargeError:
    message = (
        f"Message {each.message_id} has {each.size} bytes, and {topic.name} takes"
        f" {topic.message_size_max}: raise its maxMessageSize, or choose others by messageIds or"
        " from"
    )
    return MessageTooLargeError(message)
