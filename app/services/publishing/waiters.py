"""Lets publishers wait until every subscription has finished their message."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final
from uuid import uuid4

from app.domain.errors import TooManyWaitersError
from app.domain.runtime.receipt import FinalOutcome, Receipt, ReceiptAddress, receipts_in
from app.services.directory.subscribers import TopicSubscriber

# The maximum number of publishers that wait for subscribers in this process. Each of them keeps a
# connection open.
WAITERS_MAX: Final = 1_000
WAIT_MAX: Final = timedelta(seconds=30)
# The longest time that the log takes to store a message. The publisher begins to wait for
# subscribers after the message is stored, so workers send receipts for this time longer.
_STORING_MAX: Final = timedelta(seconds=10)


class PendingReason(StrEnum):
    """The reason why a subscription's outcome for a message is unknown.

    PENDING: the subscription has not finished the message yet, or its worker has not reported this.
    SUSPENDED: the subscription is suspended, and gets the message when it is resumed. DELETED: the
    subscription was deleted after the message was published.
    """

    PENDING = "PENDING"
    SUSPENDED = "SUSPENDED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberOutcome:
    """What became of a message in one subscription. If it was discarded, `reason` says why."""

    name: str
    outcome: FinalOutcome | PendingReason
    status: int | None = None
    reason: str | None = None


Subscribers = Callable[[], Mapping[str, TopicSubscriber]]
Enough = Callable[[Sequence[SubscriberOutcome]], bool]


class Waiting:
    """A publisher that waits for the subscribers of its message.

    The record of the message gets the header `header`. It tells workers to which process they send
    receipts. A publisher can give a condition, `enough`. It then waits only until the condition is
    true. The condition is evaluated at the start, after receipts have come, and at the end.
    """

    def __init__(
        self,
        address: ReceiptAddress,
        subscribers: Subscribers,
        within: timedelta,
        *,
        enough: Enough | None = None,
    ) -> None:
        self.header = address.header()
        # The last result of the publisher's condition; None if the publisher gave no condition.
        self.acknowledged: bool | None = None if enough is None else False
        self._enough = enough
        self._within = within
        self._subscribers = subscribers
        # Copy the subscriptions. The publisher does not wait for subscriptions that are created or
        # suspended later.
        self._awaited = dict(subscribers())
        self._receipts: dict[str, Receipt] = {}
        self._open = {own_id for own_id, each in self._awaited.items() if each.active}
        self._news = asyncio.Event()

    @property
    def complete(self) -> bool:
        """Whether every subscription that was active at the start has finished the message."""
        return not self._open

    def take(self, receipt: Receipt) -> None:
        """Store the receipt of a subscription.

        Further receipts of the same subscription are ignored.
        """
        self._receipts.setdefault(receipt.subscription_id, receipt)
        self._open.discard(receipt.subscription_id)
        # Wake the task that waits for receipts. It evaluates the condition once for all receipts
        # that have come. So the evaluation does not delay the reading of further receipts.
        if self.complete or self._enough is not None:
            self._news.set()

    async def outcomes(self) -> Sequence[SubscriberOutcome]:
        """Wait until all subscriptions have finished the message, or the condition is true.

        Returns:
            What became of the message in each subscription. If the time is over, what is known so
            far.
        """
        found = self._judged()
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                while not (self.complete or self.acknowledged):
                    await self._news.wait()
                    found = self._judged()
        except TimeoutError:
            found = self._judged()  # the time is over: return the outcomes that are known
        return found

    def _judged(self) -> Sequence[SubscriberOutcome]:
        self._news.clear()
        found = self._outcomes_so_far()
        if self._enough is not None:
            self.acknowledged = self._enough(found)
        return found

    def _outcomes_so_far(self) -> Sequence[SubscriberOutcome]:
        present = self._subscribers()
        return [
            self._outcome(own_id, each.name, present.get(own_id))
            for own_id, each in sorted(self._awaited.items(), key=lambda item: item[1].name)
        ]

    def _outcome(self, own_id: str, name: str, now: TopicSubscriber | None) -> SubscriberOutcome:
        receipt = self._receipts.get(own_id)
        if receipt is None:
            if now is None:
                return SubscriberOutcome(name=name, outcome=PendingReason.DELETED)
            state = PendingReason.PENDING if now.active else PendingReason.SUSPENDED
            return SubscriberOutcome(name=name, outcome=state)
        return SubscriberOutcome(
            name=name, outcome=receipt.outcome, status=receipt.status, reason=receipt.reason or None
        )


class Waiters:
    """The publishers of this process that wait for subscribers.

    Each waiting publisher has a number. The record of its message has this number in a header.
    """

    def __init__(self, *, waiters_max: int = WAITERS_MAX) -> None:
        self.name = uuid4().hex
        self._waiters_max = waiters_max
        self._waiting: dict[int, Waiting] = {}
        self._last = 0

    @contextmanager
    def waiting(
        self, subscribers: Subscribers, *, within: timedelta, enough: Enough | None = None
    ) -> Iterator[Waiting]:
        """Register a waiting publisher, until the block ends.

        Raises:
            TooManyWaitersError: Too many publishers wait.
        """
        if len(self._waiting) >= self._waiters_max:
            raise TooManyWaitersError("Too many publishers wait for deliveries")
        self._last = number = self._last + 1
        until = timedelta(seconds=time.time()) + within + _STORING_MAX
        address = ReceiptAddress(self.name, number, int(until / timedelta(milliseconds=1)))
        self._waiting[number] = waiting = Waiting(address, subscribers, within, enough=enough)
        try:
            yield waiting
        finally:
            del self._waiting[number]

    def receive(self, payload: str) -> None:
        """Pass each receipt in `payload` to the publisher that waits for this receipt.

        Receipts that no publisher waits for are ignored.
        """
        for receipt in receipts_in(payload):
            waiting = self._waiting.get(receipt.number)
            if waiting is not None:
                waiting.take(receipt)
