"""The attempts that a subscription's trace knows to be in flight."""

from math import inf

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress
from app.domain.message import Message
from app.tracing.buffer import TraceBuffer
from tests.fakes.reading import ORDERS, a_record
from tests.unit.consumer.test_retry_queue import Nobody
from tests.unit.tracing.test_buffer import Stream
from workers.consumer.commit.cursor import Cursor
from workers.consumer.outcome.subscription_trace import SubscriptionTrace
from workers.consumer.schedule.delivery_job import DeliveryJob


async def test_what_was_not_sent_is_not_in_flight() -> None:
    buffer = TraceBuffer(Stream().append, worker="w")
    subscription = Subscription(id="s-1", topic="g.t", name="s", endpoint="http://127.0.0.1/")
    trace = SubscriptionTrace(buffer, subscription)
    cursor = Cursor(Nobody(), ORDERS, Progress(subscription_id="s", offset=0))
    job = DeliveryJob(Message(a_record(0), ORDERS), cursor, inf)
    trace.began(job)
    trace.opens(job)
    trace.unsent(job)
    assert (buffer.open_attempts, buffer.waiting, job.used_connection) == ({}, 0, None)
