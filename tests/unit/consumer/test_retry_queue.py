"""The queue of retries: who is due, in which order, and who is forgotten."""

import weakref

import pytest

from app.domain.commit import Progress
from app.domain.message import Message
from tests.fakes.reading import ORDERS, a_record
from workers.consumer.commit.cursor import Cursor
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue


class Nobody:
    """An owner that has nothing to do."""

    def readable(self, cursor: Cursor) -> None:
        """Nothing is read here."""

    def moved(self, cursor: Cursor) -> None:
        """Nothing is committed here."""


def a_cursor(owner: Nobody | None = None) -> Cursor:
    return Cursor(owner or Nobody(), ORDERS, Progress(subscription_id="s", offset=0))


def queued(*dues: float) -> tuple[RetryQueue, list[DeliveryJob]]:
    queue, jobs = RetryQueue(), []
    for number, due in enumerate(dues):
        jobs.append(DeliveryJob(Message(a_record(number), ORDERS), a_cursor(), 1e9))
        queue.add(jobs[-1], due)
    return queue, jobs


def test_gives_what_is_due_the_longest_due_first_and_nothing_earlier() -> None:
    queue, jobs = queued(3.0, 1.0, 2.0)
    assert queue.next_due == 1.0
    assert queue.take(0.9) is None
    assert [queue.take(2.0), queue.take(2.0), queue.take(2.0)] == [
        jobs[1],
        jobs[2],
        None,
    ]
    assert (len(queue), queue.next_due) == (1, 3.0)


def test_of_those_due_at_the_same_time_gives_the_first_parked_first() -> None:
    queue, jobs = queued(1.0, 1.0, 1.0)
    assert [queue.take(1.0) for _ in jobs] == jobs
    assert queue.next_due is None


def test_gives_the_oldest_though_it_is_not_due_and_not_again() -> None:
    queue, jobs = queued(1.0, 2.0, 3.0)
    for job, first_due in zip(jobs, (30.0, 10.0, 20.0), strict=True):
        queue.remove(lambda each, job=job: each is job)  # type: ignore[misc]  # bound in the loop
        job.due = first_due
        queue.add(job, 60.0 - first_due)
    assert [queue.take_oldest(), queue.take_oldest()] == [jobs[1], jobs[2]]
    assert (len(queue), queue.next_due) == (1, 30.0)
    assert [queue.take(99.0), queue.take(99.0), queue.take_oldest()] == [
        jobs[0],
        None,
        None,
    ]


@pytest.mark.parametrize("by_age", [False, True])
def test_keeps_nothing_of_those_that_are_gone(*, by_age: bool) -> None:
    queue, owner = RetryQueue(), Nobody()
    job = DeliveryJob(Message(a_record(0), ORDERS), a_cursor(owner), 1e9)
    queue.add(job, 0.0)
    # Its cursor keeps it. A compiled cursor has no weak references itself.
    kept = weakref.ref(owner)
    for _ in range(10_000):
        taken = queue.take_oldest() if by_age else queue.take(0.0)
        assert taken is job
        queue.add(job, 0.0)
    assert queue.take(0.0) is job
    assert sum(len(heap) for heap in (queue._by_due, queue._by_age)) < 1_000  # noqa: SLF001 - memory cannot be seen from outside
    del owner, job, taken
    assert kept() is None


def test_forgets_the_unwanted_and_keeps_the_order_of_the_others() -> None:
    queue, jobs = queued(*[5.0, 1.0, 4.0, 2.0, 3.0])
    unwanted = jobs[1].cursor
    queue.remove(lambda job: job.cursor is unwanted)
    assert [queue.take(9.0) for _ in range(5)] == [jobs[3], jobs[4], jobs[2], jobs[0], None]


def test_of_what_was_put_off_gives_the_oldest_first_and_of_the_rest_nothing() -> None:
    queue, jobs = queued()
    for number, deferred in ((3, True), (1, False), (2, True)):
        jobs.append(DeliveryJob(Message(a_record(number), ORDERS), a_cursor(), 1e9))
        jobs[-1].due, jobs[-1].deferred = float(number), deferred
        queue.add(jobs[-1], 10.0)
    assert (queue.has_deferred(9.9), queue.has_deferred(10.0)) == (False, True)
    assert [queue.take_deferred() for _ in range(3)] == [jobs[2], jobs[0], None]
    assert not queue.has_deferred(10.0)
    assert queue.take(10.0) is jobs[1]


def test_what_was_put_off_is_forgotten_with_its_cursor() -> None:
    queue, jobs = queued()
    jobs.append(DeliveryJob(Message(a_record(1), ORDERS), a_cursor(), 1e9))
    jobs[0].deferred = True
    queue.add(jobs[0], 1.0)
    queue.remove(lambda job: job is jobs[0])
    assert (queue.has_deferred(1.0), queue.take_deferred()) == (False, None)
