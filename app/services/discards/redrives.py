"""Redrives: discarded messages are sent again to the subscription that did not get them."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Final, NamedTuple
from uuid import uuid4

import structlog

from app.domain.access.audit import Action, Change
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.discards.redrive import (
    REDRIVE_BYTES_MAX,
    REDRIVE_MESSAGES_MAX,
    Redrivable,
    RedriveFilter,
    redrive_record,
)
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import AngeliaError, MessageRefusedError, MessageTooLargeError
from app.domain.targeted import RecordTarget
from app.log.interface import MessageLog
from app.services.access.audit import note
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.discards.redrives import RedriveRepository

# The maximum number of messages that a redrive appends with one call to the log.
CALL_MESSAGES_MAX: Final = 100
# The maximum number of bytes that a redrive appends with one call to the log. All of them are in
# memory at the same time.
CALL_BYTES_MAX: Final = 1024 * 1024
# The number of discards that a redrive reads. This is one more than one request can send, to know
# whether there are more discards.
_LOOKED_AT: Final = REDRIVE_MESSAGES_MAX + 1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """The result of a redrive: the messages that were sent again, the oldest discard first.

    If `id` is None, nothing was sent. In a preview, `messages` has what a redrive would send.
    `more` is True if there are more discards than one request can send.
    """

    id: str | None
    messages: Sequence[Redrivable]
    more: bool


class _Redrive(NamedTuple):
    """A requested redrive. `looked_at` is the database's time just before it read the discards."""

    subscription: Subscription
    topic: Topic
    wanted: RedriveFilter
    looked_at: datetime
    id: str


class RedriveService:
    """Appends discarded messages to their topic again, for their subscription only."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def preview(self, topic: str, name: str, wanted: RedriveFilter) -> Redriven:
        """Return the messages that `redrive` would send.

        Errors are raised as in `redrive`, but the log is not needed.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            found = await RedriveRepository(session).choose(
                subscription.id, wanted, limit=_LOOKED_AT, claim=False
            )
            chosen = _fitting(found, await TopicRepository(session).get(topic))
        return Redriven(id=None, messages=chosen, more=len(chosen) < len(found))

    async def redrive(self, topic: str, name: str, wanted: RedriveFilter) -> Redriven:
        """Send discarded messages again, as many as one request can send.

        The subscription may be suspended. If an error is raised, no message counts as sent. Each
        call to the log has its own event in the audit.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            MessageTooLargeError: Nothing is sent, and a message is larger than its topic allows.
            MessageRefusedError: Nothing is sent, and the log refuses a message for what it is.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            redrives = RedriveRepository(session)
            looked_at = await redrives.now()
            # Leave out discards that another redrive is sending now, so that no message is sent
            # twice.
            found = await redrives.choose(
                subscription.id, wanted, limit=_LOOKED_AT, claim=wanted.again
            )
            found_topic = await TopicRepository(session).get(topic)
        redrive = _Redrive(subscription, found_topic, wanted, looked_at, uuid4().hex)
        sent, more = list[Redrivable](), len(found)
        for call in _calls(_fitting(found, found_topic)):
            try:
                await self._send(redrive, call, sent)
            except AngeliaError:
                if not sent:
                    raise
                break
            more -= len(call)
        _log.info("redriven", topic=topic, subscription=name, messages=len(sent))
        return Redriven(id=redrive.id if sent else None, messages=sent, more=more > 0)

    async def _send(
        self, redrive: _Redrive, call: Sequence[Redrivable], sent: list[Redrivable]
    ) -> None:
        """Send messages by one group of calls to the log, mark them, and add them to `sent`.

        Messages that another redrive is sending are left out. The rows of the sent messages stay
        locked during the calls to the log. If one of these messages is discarded again meanwhile,
        the recorder waits for its row.

        If the log does not store a message, its error is raised after the others are marked.
        """
        async with self._database.transaction() as session:
            redrives = RedriveRepository(session)
            rows = await redrives.claim(
                [each.row for each in call], redrive.wanted, looked_at=redrive.looked_at
            )
            failures = await self._append(redrive, await redrives.read(rows))
            stored = [each for each in call if each.row in rows and each.row not in failures]
            if stored:
                # Mark the messages as sent only after the log has acknowledged them. If the process
                # dies between these two steps, the next redrive sends the messages again. In the
                # other order, the messages would be lost.
                await redrives.mark([each.row for each in stored], redrive.id)
                await note(AuditRepository(session), _change(redrive, stored))
        sent += stored
        for failure in failures.values():
            raise failure

    async def _append(
        self, redrive: _Redrive, discards: Mapping[int, Undelivered]
    ) -> Mapping[int, BaseException]:
        """Append the discards, which are given by row. Return the errors of those not stored."""
        now_ms = time.time_ns() // 1_000_000
        record_target = RecordTarget(redrive.subscription.id, redrive.id)
        records = [redrive_record(each, record_target, now_ms=now_ms) for each in discards.values()]
        # Each message has a call of its own, because a call for all of them does not tell which
        # messages the log has stored if it refuses one. The log groups calls that come together.
        topic, ack = redrive.topic.name, redrive.topic.ack
        results = await asyncio.gather(
            *(self._log.append(topic, [record], ack=ack) for record in records),
            return_exceptions=True,
        )
        return {
            row: _naming(each, result)
            for (row, each), result in zip(discards.items(), results, strict=True)
            if isinstance(result, BaseException)
        }


def _change(redrive: _Redrive, sent: Sequence[Redrivable]) -> Change:
    return Change(
        action=Action.REDRIVEN,
        kind="subscription",
        name=f"{redrive.subscription.topic}/{redrive.subscription.name}",
        after={"id": redrive.id, "messages": len(sent)},
    )


def _fitting(found: Sequence[Redrivable], topic: Topic) -> Sequence[Redrivable]:
    """Return the first of the messages, as many as one request can send.

    The result ends before a message that is larger than its topic now allows.

    Raises:
        MessageTooLargeError: The first message is larger than its topic now allows.
    """
    chosen = found[:REDRIVE_MESSAGES_MAX]
    if chosen and chosen[0].size > topic.message_size_max:
        raise _too_large(chosen[0], topic)
    sizes = accumulate(each.size for each in chosen)
    for index, (each, size) in enumerate(zip(chosen, sizes, strict=True)):
        if each.size > topic.message_size_max or size > REDRIVE_BYTES_MAX:
            return chosen[:index]
    return chosen


def _calls(chosen: Sequence[Redrivable]) -> Iterator[Sequence[Redrivable]]:
    """Divide the messages into calls to the log. Their order stays the same."""
    first, size = 0, 0
    for index, each in enumerate(chosen):
        full = index - first >= CALL_MESSAGES_MAX or size + each.size > CALL_BYTES_MAX
        if full and index > first:
            yield chosen[first:index]
            first, size = index, 0
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


def _naming(each: Undelivered, error: BaseException) -> BaseException:
    """Return the error with the id of the message, if the log will always refuse the message."""
    if not isinstance(error, MessageTooLargeError | MessageRefusedError):
        return error
    message = (
        f"Message {each.message_id} cannot be sent again: {error.message}. Choose others by"
        " messageIds or from"
    )
    return type(error)(message)
