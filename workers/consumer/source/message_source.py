"""The next messages of a subscription. They are taken from its cursors, and filtered."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import structlog

from app.domain.catalogue.batching import Batching
from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from app.domain.catalogue.filters import Filter
from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.delivery import Discarded
from app.domain.message import Message
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain, Verdict
from workers.consumer.commit.cursor import Cursor
from workers.consumer.defects import Defects
from workers.consumer.loop_budget import LoopBudget
from workers.consumer.source.batches import Batches
from workers.consumer.source.cancelled_messages import CancelledMessage, CancelledMessages
from workers.consumer.source.collected_batch import CollectedBatch, begun, without
from workers.consumer.source.fetches import Fetches
from workers.consumer.source.order import Opened, Order, order_of
from workers.consumer.source.polling import Polling

_log = structlog.get_logger()


class SourceParts(Protocol):
    """The parts that all message sources of a worker share."""

    delivery_budget: LoopBudget
    filter_budget: LoopBudget
    bodies: ParsedBodies
    cancelled_messages: CancelledMessages


class FilterTrace(Protocol):
    """Gets the messages that are filtered out."""

    def filtered(self, message: Message, why: str) -> None:
        """Called when a message is filtered out. `why` is set if the filters could not judge it."""


class Chain(Protocol):
    """The filters of a subscription."""

    @property
    def problem(self) -> str:
        """The reason why the filters cannot be used. Empty if they can be used."""

    def judge(self, message: Message) -> Verdict:
        """Return whether the filters accept or reject the message, or cannot judge it."""


class BrokenChain:
    """Takes the place of filters that could not be compiled because of an unexpected error."""

    problem = ""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def judge(self, message: Message) -> Verdict:
        """Raise the error of the filters. So the error is recorded for each message."""
        del message
        raise self._error.with_traceback(None)


class MessageSource:
    """Returns messages one by one in their order, and closes messages that are filtered out.

    A message that has passed the filters but cannot be sent yet is held, so that it is not filtered
    again. At most one message is held. `resume` is called when more messages can be taken in a
    later turn of the event loop.
    """

    def __init__(
        self,
        parts: SourceParts,
        fetches: Fetches,
        resume: Callable[[], None],
        *,
        defects: Defects,
    ) -> None:
        self._parts = parts
        self._defects = defects
        self._fetches = fetches
        self._resume = resume
        self._ready: deque[Cursor] = deque()
        self._held: Opened | None = None
        # Messages that waited for an earlier message in their order, and may be sent now.
        self._freed: deque[Opened] = deque()
        self._ordered_by: Ordering | Batching = Ordering.NONE
        self._order: Order | None = None
        # The order of messages, if it collects messages into batches; otherwise None.
        self._batches: Batches | None = None
        # By how much the list of readable cursors is rotated after each message: -1 or 0. With -1,
        # each message comes from the next partition. For batches the value is 0, so a batch first
        # takes all messages of one partition. Then other partitions remain for the next batch,
        # which can be in flight at the same time.
        self._rotation = -1
        # The cursors that are not read now. Each one is read again when one of its messages is
        # finished, or when the settings change.
        self._barred: set[Cursor] = set()
        # The ids of cancelled retransmissions.
        self._dropped: tuple[str, ...] = ()
        self._filters: tuple[Filter, ...] = ()
        self._chain: Chain | None = None
        # The number of messages that were filtered out because the filters could not judge them.
        self.unjudged = 0
        # In polling mode: the object that decides when messages may be taken. In other modes: None.
        # The consumer reports to it the start of each first attempt, and the end of each attempt.
        self.polling: Polling | None = None
        # The trace to which filtered-out messages are written; None if they are not traced.
        self.trace: FilterTrace | None = None

    def __bool__(self) -> bool:
        """Whether there may be a message to take."""
        if self._held is not None or self._freed or self._ready:
            return True
        return self.next_due is not None

    @property
    def is_ordered(self) -> bool:
        """Whether messages may wait for others. If so, `finished` must be called for each."""
        return self._order is not None

    @property
    def is_broken(self) -> bool:
        """Whether the filters could not be compiled because of an unexpected error."""
        return isinstance(self._chain, BrokenChain)

    @property
    def waiting(self) -> int:
        """The approximate number of messages that could be taken now."""
        unread = sum(cursor.end - cursor.position for cursor in self._ready)
        return unread + len(self._freed) + (self._held is not None)

    @property
    def is_ready(self) -> bool:
        """Whether a message could probably be taken now."""
        if self.waiting == 0 or self.polling is None or self._held is not None or self._freed:
            return self.waiting > 0
        now = time.monotonic()
        poll = self.polling.next_due(now)
        return poll is None or poll <= now

    @property
    def next_due(self) -> float | None:
        """Return when an incomplete batch is due, or the next poll starts (monotonic seconds).

        Return None if there is neither a batch nor a poll to wait for.
        """
        due = None if self._batches is None else self._batches.next_due
        if self.polling is None or not self._ready:
            return due
        poll = self.polling.next_due(time.monotonic())
        return min((at for at in (due, poll) if at is not None), default=None)

    def configure(self, subscription: Subscription) -> None:
        """Use the subscription's settings for all messages read from now on."""
        self._take_by(subscription.fetch)
        self._dropped = subscription.dropped
        self._filter_by(subscription)
        if _ordered_by(subscription) != self._ordered_by:
            if self._order is not None:
                self._freed.extend(self._order.drain())
            self._order_by(subscription)
        elif self._order is not None:
            self._order.limit(subscription.policy, subscription.fetch)
        while self._barred:
            self.add(self._barred.pop())

    def _order_by(self, subscription: Subscription) -> None:
        batching, policy = subscription.batching, subscription.policy
        if batching is None:
            order = order_of(subscription)
            self._order, self._batches, self._rotation = order, None, -1
        else:
            batches = Batches(
                batching, policy, subscription_id=subscription.id, defects=self._defects
            )
            self._order, self._batches, self._rotation = batches, batches, 0
        # Set `_ordered_by` last. If an error is raised before this line, the settings are applied
        # again later.
        self._ordered_by = _ordered_by(subscription)

    def _take_by(self, fetch: FetchPolicy) -> None:
        self._fetches.configure(fetch)
        if fetch.mode is not FetchMode.POLLING:
            self.polling = None
        elif self.polling is None:
            self.polling = Polling(fetch, time.monotonic())
        else:
            self.polling.configure(fetch, time.monotonic())

    def _filter_by(self, subscription: Subscription) -> None:
        filters = subscription.filters
        if filters != self._filters or self.is_broken:
            self._filters = filters
            self._chain = self._chain_of(filters) if filters else None
            if self._chain and self._chain.problem:
                group, problem = subscription.group, self._chain.problem
                _log.error("filters_unusable", subscription=group, problem=problem)

    def _chain_of(self, filters: Sequence[Filter]) -> Chain:
        try:
            return FilterChain(filters, self._parts.bodies)
        except Exception as exc:  # noqa: BLE001 - an error must affect only this subscription
            return BrokenChain(exc)

    def add(self, cursor: Cursor) -> None:
        """Add `cursor`, which may have a message to take."""
        if not cursor.queued:
            cursor.queued = True
            self._ready.append(cursor)

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Drop the waiting messages of closing `cursors`. These messages stay unfinished."""
        if self._held is not None:
            self._held = without(self._held, cursors)
        self._barred -= cursors
        if self._order is not None:
            self._order.release(cursors)
        if self._freed:
            left = [without(opened, cursors) for opened in self._freed]
            self._freed = deque(opened for opened in left if opened is not None)

    def failed(self, cursor: Cursor, message: Message) -> None:
        """Called when the message will be retried. Messages after it in its order must wait."""
        if self._order is not None:
            self._order.failed(cursor, message)

    def finished(self, cursor: Cursor, message: Message) -> None:
        """Called when the message is delivered or discarded.

        The next message in its order may then be sent.
        """
        if self._order is None:
            return
        freed = self._order.finished(cursor, message)
        if freed is not None:
            self._freed.append(freed)
        cursors = message.cursors if isinstance(message, CollectedBatch) else (cursor,)
        for each in cursors:
            if each in self._barred:
                self._barred.remove(each)
                self.add(each)

    def read_ahead(self) -> None:
        """Filter messages until one is accepted, and hold this message.

        This is done even while the rate allows no request.
        """
        if self._chain is not None and self._held is None:
            self._held = self._next_wanted()

    def has_wanted(self) -> bool:
        """Whether there is a message to take. The message is then held until it is taken."""
        if self._freed:
            return True
        if self._held is None:
            self._held = self._next_wanted()
        return self._held is not None

    @property
    def waits_for_budget(self) -> bool:
        """Whether nothing more can be taken in this turn of the event loop.

        If true, `resume` is called in a later turn.
        """
        held = self._held
        return (
            held is not None
            and held.cursor.lagging
            and self._parts.delivery_budget.is_waiting(self._resume)
        )

    def take_start(self) -> bool:
        """Return whether a retry or an eviction may start in this turn of the event loop.

        If false, `resume` is called in a later turn.
        """
        return self._parts.delivery_budget.take(self._resume)

    def take(self) -> Opened | None:
        """Return the next message to send.

        Return None if there is no message, or if no more deliveries may start in this turn of the
        event loop.
        """
        held = self._held
        opened = held or (self._freed.popleft() if self._freed else self._next_wanted())
        self._held = opened
        if opened is None:
            return None
        if not opened.cursor.lagging:
            self._parts.delivery_budget.live()
        elif not self._parts.delivery_budget.take(self._resume):
            return None
        self._held = None
        if held is not None or opened.kept:
            # Start the time to live only now, because the message could not be sent before.
            opened = begun(opened, time.time_ns() // 1_000_000)
        return opened

    def _next_wanted(self) -> Opened | None:  # noqa: C901 - a call for each message would take long
        ready, chain, order, polling = self._ready, self._chain, self._order, self.polling
        if self._batches is not None and (due := self._overdue(self._batches)):
            return due
        # Count messages against the budget for filters only if many messages may be checked before
        # one is taken.
        choosy = chain is not None or order is not None
        while (
            ready
            and (order is None or order.may_open())
            and (polling is None or polling.may_take(time.monotonic()))
        ):
            if choosy and not self._parts.filter_budget.take(self._resume):
                return None
            cursor = ready[0]
            if order is not None and not order.may_read(cursor):
                self._barred.add(cursor)
                ready.popleft()
                cursor.queued = False
                continue
            taken = cursor.take()
            if taken is None:
                ready.popleft()
                cursor.queued = False
                continue
            try:
                if taken[0].record_target is not None and self._passes_by(cursor, taken[0]):
                    # Count targeted records for other subscriptions against the budget too. A
                    # retransmission may have put very many of them into the log, one after another.
                    choosy = True
                    continue
                if chain is not None and not (verdict := chain.judge(taken[0])).wanted:
                    self._filter_out(cursor, taken[0], verdict)
                    continue
                ready.rotate(self._rotation)
                opened = Opened(cursor, taken[0], taken[1])
                if polling is not None:
                    polling.took()
                admitted = opened if order is None else order.admit(opened)
            except Exception as exc:  # noqa: BLE001 - an error must affect only this message
                admitted = self._broken(exc, Opened(cursor, taken[0], taken[1]))
            if admitted is not None:
                return admitted
        return self._nothing_more()

    def _broken(self, error: Exception, opened: Opened) -> Opened | None:
        """Return a message that caused an unexpected error, marked as refused.

        The message is recorded as undelivered after the earlier messages in its order.
        """
        reason = self._defects.found(error, step="look", message=opened.message)
        if not opened.cursor.is_open(opened.message):
            return None  # return nothing: the message is finished
        refused = opened._replace(refused=Discarded(reason=reason))
        if self._order is None or self._order is self._batches:
            return refused
        return self._order.admit(refused)

    def _passes_by(self, cursor: Cursor, message: Message) -> bool:
        """Skip the message if it is for another subscription, or from a cancelled retransmission.

        Return whether the message is skipped.
        """
        record_target = message.record_target
        if record_target is None or record_target.subscription_id != cursor.subscription_id:
            cursor.passed_by(message)
            return True
        if record_target.job_id in self._dropped:
            self._parts.cancelled_messages.add(
                CancelledMessage(record_target.job_id, cursor, message)
            )
            return True
        return False

    def _filter_out(self, cursor: Cursor, message: Message, verdict: Verdict) -> None:
        if verdict.error is not None:
            self.unjudged += 1
        cursor.filtered(message)
        if self.trace is not None:
            self.trace.filtered(message, verdict.error or "")

    def _nothing_more(self) -> Opened | None:
        if self.polling is not None and not self._ready:
            reading, held_up = self._fetches.busy, bool(self._barred)
            self.polling.found_nothing(time.monotonic(), reading=reading, held_up=held_up)
        return None if self._batches is None else self._overdue(self._batches)

    def _overdue(self, batches: Batches) -> Opened | None:
        if self.polling is None or not self._ready:
            return batches.overdue()
        return batches.overdue(readable=self.polling.may_take(time.monotonic()))


def _ordered_by(subscription: Subscription) -> Ordering | Batching:
    """Return the settings that determine the order. With batches, `ordering` is ignored."""
    return subscription.batching or subscription.ordering
