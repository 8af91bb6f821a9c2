"""Publishers who wait until every subscription is done with their message."""

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

# In this process at a time; each holds a connection of its client's.
WAITERS_MAX: Final = 1_000
WAIT_MAX: Final = timedelta(seconds=30)
# Until the log has a message nobody waits for its subscribers, and that takes less.
_STORING_MAX: Final = timedelta(seconds=10)


class PendingReason(StrEnum):
    """Why nothing is known of a message's end at a subscription.

    PENDING: it is not done with it, or has not said so yet. SUSPENDED: it gets it when it is
    resumed. DELETED: it was deleted meanwhile.
    """

    PENDING = "PENDING"
    SUSPENDED = "SUSPENDED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberOutcome:
    """Where a message stands at the subscription of that name; a discard says why."""

    name: str
    outcome: FinalOutcome | PendingReason
    status: int | None = None
    reason: str | None = None


Subscribers = Callable[[], Mapping[str, TopicSubscriber]]
Enough = Callable[[Sequence[SubscriberOutcome]], bool]


class Waiting:
    """One publisher who waits. `header` is for the record, so that workers know of him.

    He waits no longer than until it is `enough` for him, if he says when that is: whether it is, is
    judged when he begins to wait, after receipts, and when time is up.
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
        # Whether it was enough when that was judged last; None: he does not say when.
        self.acknowledged: bool | None = None if enough is None else False
        self._enough = enough
        self._within = within
        self._subscribers = subscribers
        # As they are now: who subscribes later, or is suspended, is not waited for.
        self._asked = dict(subscribers())
        self._receipts: dict[str, Receipt] = {}
        self._open = {own_id for own_id, each in self._asked.items() if each.active}
        self._news = asyncio.Event()

    @property
    def complete(self) -> bool:
        """Whether every subscription that was active is done with the message."""
        return not self._open

    def take(self, receipt: Receipt) -> None:
        """A subscription is done with it; what it said first counts."""
        self._receipts.setdefault(receipt.subscription_id, receipt)
        self._open.discard(receipt.subscription_id)
        # He judges himself, once for all that has come by then: whoever reads receipts goes on.
        if self.complete or self._enough is not None:
            self._news.set()

    async def outcomes(self) -> Sequence[SubscriberOutcome]:
        """Where it stands at each subscription, once that is all or enough, or time is up."""
        found = self._judged()
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                while not (self.complete or self.acknowledged):
                    await self._news.wait()
                    found = self._judged()
        except TimeoutError:
            found = self._judged()  # what is known by now is the answer
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
            for own_id, each in sorted(self._asked.items(), key=lambda item: item[1].name)
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
    """The publishers of this process who wait, by the number that their records carry."""

    def __init__(self, *, waiters_max: int = WAITERS_MAX) -> None:
        self.name = uuid4().hex
        self._waiters_max = waiters_max
        self._waiting: dict[int, Waiting] = {}
        self._last = 0

    @contextmanager
    def waiting(
        self, subscribers: Subscribers, *, within: timedelta, enough: Enough | None = None
    ) -> Iterator[Waiting]:
        """Let a publisher wait in the block; TooManyWaitersError."""
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
        """Receipts have come; those that nobody waits for any more are passed over."""
        for receipt in receipts_in(payload):
            waiting = self._waiting.get(receipt.number)
            if waiting is not None:
                waiting.take(receipt)
