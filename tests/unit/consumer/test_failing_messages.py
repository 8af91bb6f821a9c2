"""Which failed messages count as still retried."""

from math import inf

import pytest

from app.domain.delivery import TTL_ELAPSED, Discarded, Retry
from tests.fakes.reading import a_batch
from tests.unit.consumer.test_cursor import Scene
from workers.consumer.outcome.failing_messages import MESSAGES_MAX, FailingMessages
from workers.consumer.schedule.delivery_job import DeliveryJob

OVER = Discarded(reason=TTL_ELAPSED)


@pytest.fixture
def jobs() -> list[DeliveryJob]:
    """One more than are remembered."""
    scene = Scene()
    scene.feed.put(a_batch(0, MESSAGES_MAX + 1))
    made = []
    while (taken := scene.cursor.take()) is not None:
        made.append(DeliveryJob(taken[0], scene.cursor, inf))
        made[-1].attempts = taken[0].offset
    return made


def test_a_message_that_is_given_up_without_an_attempt_is_not_reported(
    jobs: list[DeliveryJob],
) -> None:
    failing = FailingMessages()
    for job in jobs[:2]:
        failing.failed(job, Retry(reason="no"))
    jobs[0].refused = OVER
    assert [each.attempts for each in failing.report()] == [1]


def test_a_message_that_has_ended_takes_the_place_of_no_other(jobs: list[DeliveryJob]) -> None:
    failing, (*first, last) = FailingMessages(), jobs
    for job in first:
        failing.failed(job, Retry(reason="no"))
    first[-1].refused = OVER
    failing.failed(last, Retry(reason="no"))
    assert [each.attempts for each in failing.report()] == [3, 1, 0]
