"""The park of retries: who is due, in which order, and who is forgotten."""

import weakref

import pytest

from app.domain.commit import Progress
from app.domain.message import Message
from tests.fakes.reading import ORDERS, a_record
from workers.consumer.commit.cursor import Cursor
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.retry_queue import RetryPark


class Nobody:
    """An owner that has nothing to do."""

    def readable(self, cursor: Cursor) -> None:
        """Nothing is read here."""

    def moved(self, cursor: Cursor) -> None:
        """Nothing is committed here."""


def a_cursor() -> Cursor:
    return Cursor(Nobody(), ORDERS, Progress(subscription_id="s", offset=0))


def parked(*dues: float) -> tuple[RetryPark, list[DeliveryJob]]:
    park, jobs = RetryPark(), []
    for number, due in enumerate(dues):
        jobs.append(DeliveryJob(Message(a_record(number), ORDERS), a_cursor(), 1e9))
        park.park(jobs[-1], due)
    return park, jobs


def test_gives_what_is_due_the_longest_due_first_and_nothing_earlier() -> None:
    park, jobs = parked(3.0, 1.0, 2.0)
    assert park.next_due == 1.0
    assert park.take(0.9) is None
    assert [park.take(2.0), park.take(2.0), park.take(2.0)] == [jobs[1], jobs[2], None]
    assert (len(park), park.next_due) == (1, 3.0)


def test_of_those_due_at_the_same_time_gives_the_first_parked_first() -> None:
    park, jobs = parked(1.0, 1.0, 1.0)
    assert [park.take(1.0) for _ in jobs] == jobs
    assert park.next_due is None


def test_gives_the_oldest_though_it_is_not_due_and_not_again() -> None:
    park, jobs = parked(1.0, 2.0, 3.0)
    for job, first_due in zip(jobs, (30.0, 10.0, 20.0), strict=True):
        park.remove(lambda each, job=job: each is job)  # type: ignore[misc]  # bound in the loop
        job.due = first_due
        park.park(job, 60.0 - first_due)
    assert [park.take_oldest(), park.take_oldest()] == [jobs[1], jobs[2]]
    assert (len(park), park.next_due) == (1, 30.0)
    assert [park.take(99.0), park.take(99.0), park.take_oldest()] == [jobs[0], None, None]


@pytest.mark.parametrize("by_age", [False, True])
def test_keeps_nothing_of_those_that_are_gone(*, by_age: bool) -> None:
    park, [job] = parked(0.0)
    cursor = weakref.ref(job.cursor)
    for _ in range(10_000):
        taken = park.take_oldest() if by_age else park.take(0.0)
        assert taken is job
        park.park(job, 0.0)
    assert park.take(0.0) is job
    assert sum(len(heap) for heap in (park._by_due, park._by_age)) < 1_000  # noqa: SLF001 - memory cannot be seen from outside
    del job, taken
    assert cursor() is None


def test_forgets_the_unwanted_and_keeps_the_order_of_the_others() -> None:
    park, jobs = parked(*[5.0, 1.0, 4.0, 2.0, 3.0])
    unwanted = jobs[1].cursor
    park.remove(lambda job: job.cursor is unwanted)
    assert [park.take(9.0) for _ in range(5)] == [jobs[3], jobs[4], jobs[2], jobs[0], None]


def test_of_what_was_put_off_gives_the_oldest_first_and_of_the_rest_nothing() -> None:
    park, jobs = parked()
    for number, put_off in ((3, True), (1, False), (2, True)):
        jobs.append(DeliveryJob(Message(a_record(number), ORDERS), a_cursor(), 1e9))
        jobs[-1].due, jobs[-1].put_off = float(number), put_off
        park.park(jobs[-1], 10.0)
    assert (park.has_put_off(9.9), park.has_put_off(10.0)) == (False, True)
    assert [park.take_put_off() for _ in range(3)] == [jobs[2], jobs[0], None]
    assert not park.has_put_off(10.0)
    assert park.take(10.0) is jobs[1]


def test_what_was_put_off_is_forgotten_with_its_cursor() -> None:
    park, jobs = parked()
    jobs.append(DeliveryJob(Message(a_record(1), ORDERS), a_cursor(), 1e9))
    jobs[0].put_off = True
    park.park(jobs[0], 1.0)
    park.remove(lambda job: job is jobs[0])
    assert (park.has_put_off(1.0), park.take_put_off()) == (False, None)
