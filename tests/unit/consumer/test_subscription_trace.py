"""The attempts that a subscription's trace knows to be in flight."""

from math import inf

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress
from app.domain.delivery import Retry
from app.domain.message import Message
from app.tracing.buffer import TraceBuffer
from app.tracing.packs import TraceRow
from tests.fakes.reading import ORDERS, a_record
from tests.unit.consumer.test_retry_queue import Nobody
from tests.unit.tracing.test_buffer import Stream
from workers.consumer.commit.cursor import Cursor
from workers.consumer.outcome.subscription_trace import SubscriptionTrace
from workers.consumer.schedule.delivery_job import DeliveryJob

UNSENT = Retry(reason="Not sent: it waited", blameless=True, unsent=True)


def a_trace(buffer: TraceBuffer) -> SubscriptionTrace:
    subscription = Subscription(id="s-1", topic="g.t", name="s", endpoint="http://127.0.0.1/")
    return SubscriptionTrace(buffer, subscription)


def a_job() -> DeliveryJob:
    cursor = Cursor(Nobody(), ORDERS, Progress(subscription_id="s", offset=0))
    return DeliveryJob(Message(a_record(0), ORDERS), cursor, inf)


async def test_what_was_not_sent_is_not_in_flight() -> None:
    buffer = TraceBuffer(Stream().append, worker="w")
    trace, job = a_trace(buffer), a_job()
    trace.began(job)
    trace.opens(job)
    trace.unsent(job, UNSENT)
    assert (buffer.open_attempts, buffer.waiting, job.used_connection) == ({}, 0, None)


async def test_what_was_said_to_be_in_flight_and_not_sent_has_an_end() -> None:
    stream = Stream()
    buffer = TraceBuffer(stream.append, worker="w")
    trace, job = a_trace(buffer), a_job()
    trace.began(job)
    trace.opens(job)
    job.sent_at = -1.0
    await buffer.flush()
    trace.unsent(job, UNSENT)
    await buffer.flush()
    rows = [TraceRow(*row) for pack in stream.packs for row in pack.rows]
    assert [(row.status, row.attempt, row.reason) for row in rows] == [
        ("INFLIGHT", 1, ""),
        ("FAILED", 1, "Not sent: it waited"),
    ]
