"""What goes next where a subscriber asks to come later, and when a consumer looks again.

All is due in the first seconds of the clock, or never: how late it is now makes no difference.
"""

import asyncio
from collections.abc import Sequence
from math import inf

import pytest

from app.domain.catalogue.fetch import FetchPolicy
from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.commit import Progress
from app.domain.message import Message
from app.filtering.bodies import ParsedBodies
from tests.fakes.reading import ORDERS, a_record
from tests.unit.consumer.test_fetches import Asked
from tests.unit.consumer.test_retry_queue import Nobody
from workers.consumer.commit.cursor import Cursor
from workers.consumer.defects import Defects
from workers.consumer.loop_budget import LoopBudget
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.consumer.schedule.scheduler import Scheduler
from workers.consumer.source.cancelled_messages import CancelledMessages, Position
from workers.consumer.source.fetches import Fetches
from workers.consumer.source.message_source import MessageSource
from workers.delivery.deferral import ANOTHER_AFTER, Deferral

NOW, YOUNGER_DUE, OLDEST_DUE = 0.5, 0.25, 1.0


class NoMarks:
    """Nothing is sent again here."""

    async def unmark(self, retransmission_id: str, positions: Sequence[Position]) -> None:
        """There is none."""


class Parts:
    """What a message source needs that has nothing to hand out."""

    def __init__(self) -> None:
        self.delivery_budget = self.filter_budget = LoopBudget(asyncio.get_running_loop())
        self.bodies = ParsedBodies()
        self.cancelled_messages = CancelledMessages(NoMarks(), asyncio.TaskGroup())


def a_scheduler(queue: RetryQueue, *, refusals: int) -> Scheduler:
    """A choice for a subscriber that asked to come later so often, and took nothing since."""
    deferral, defects = Deferral(), Defects("g")
    for _ in range(refusals):
        deferral.defer(0.0, sent_at=0.0, now=0.0, rate=1.0)
    fetches = Fetches(Asked(), FetchPolicy())
    source = MessageSource(Parts(), fetches, lambda: None, defects=defects)
    return Scheduler(DeliveryPolicy(), source, queue, deferral=deferral, defects=defects)


def queued(queue: RetryQueue, number: int, *, due: float, deferred: bool) -> DeliveryJob:
    cursor = Cursor(Nobody(), ORDERS, Progress(subscription_id="s", offset=0))
    job = DeliveryJob(Message(a_record(number), ORDERS), cursor, inf)
    job.due, job.deferred = float(number), deferred
    queue.add(job, due)
    return job


@pytest.mark.parametrize("deferred", [True, False])
async def test_nothing_is_looked_at_before_the_oldest_that_is_waited_for_is_due(
    *, deferred: bool
) -> None:
    queue = RetryQueue()
    oldest = queued(queue, 0, due=OLDEST_DUE, deferred=True)
    queued(queue, 1, due=YOUNGER_DUE, deferred=deferred)
    scheduler = a_scheduler(queue, refusals=1)
    assert scheduler.take(NOW, cautious=False) is None
    assert scheduler.next_due == OLDEST_DUE
    assert scheduler.take(OLDEST_DUE, cautious=False) is oldest


@pytest.mark.parametrize(
    ("oldest_due", "refusals"), [(inf, 1), (inf, 0), (OLDEST_DUE, ANOTHER_AFTER)]
)
async def test_where_the_oldest_is_not_waited_for_what_is_due_first_goes_in_time(
    oldest_due: float, refusals: int
) -> None:
    queue = RetryQueue()
    queued(queue, 0, due=oldest_due, deferred=True)
    other = queued(queue, 1, due=YOUNGER_DUE, deferred=False)
    scheduler = a_scheduler(queue, refusals=refusals)
    assert scheduler.next_due == YOUNGER_DUE
    assert scheduler.take(NOW, cautious=False) is other
