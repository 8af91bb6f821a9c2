"""A slot: what it keeps of a request, and what it hears of one that was not begun."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.commit import Progress
from app.domain.delivery import Delivered, Outcome
from app.domain.message import Message, Partition, Record
from workers.consumer.commit.cursor import Cursor
from workers.consumer.endpoint import Endpoint  # noqa: TC001 - hidden types help nobody
from workers.consumer.outcome.discard_handler import Discard
from workers.consumer.request_slot import RequestSlot
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.delivery.in_flight import ResponseListener

SUBSCRIPTION = Subscription(
    id="s-1", topic="g.t", name="s", endpoint="http://127.0.0.1/", policy=DeliveryPolicy()
)


class Request:
    """A request in flight."""

    peer = ""

    def cancel(self) -> None: ...


class Breakable:
    """Begins what it is given, or, once it is `broken`, breaks when it has done so."""

    def __init__(self) -> None:
        self.broken = False
        self.listener: ResponseListener | None = None
        self.request: weakref.ref[Request] | None = None

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> Request:
        del message, retry_count
        self.listener = listener
        if self.broken:
            raise RuntimeError("written, and broken")
        request = Request()
        self.request = weakref.ref(request)
        return request

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        del message, retry_count
        await asyncio.sleep(0)
        return Delivered(status=200)


class SlotOwner:
    """Has no more than the one job that its slot begins with."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.subscription = SUBSCRIPTION
        self.theirs = Breakable()
        self.endpoint: Endpoint = self.theirs
        self.tasks = tasks
        self.outcomes: list[Outcome] = []
        self.freed_slots: list[RequestSlot] = []

    async def attempt(self, job: DeliveryJob) -> Outcome:
        return await self.endpoint.attempt(job.message, retry_count=job.attempts)

    def defect(self, error: Exception, job: DeliveryJob) -> Outcome:
        del job
        raise error

    def on_response(
        self, job: DeliveryJob, outcome: Outcome, sent_as: Subscription
    ) -> Discard | None:
        del job, sent_as
        self.outcomes.append(outcome)
        return None

    def recover(self, error: Exception) -> None:
        raise error

    async def record(self, discard: Discard) -> None: ...

    def job_ended(self, job: DeliveryJob) -> None: ...

    def next_job(self) -> DeliveryJob | None:
        return None

    def slot_freed(self, slot: RequestSlot) -> None:
        self.freed_slots.append(slot)


class Owner:
    def readable(self, cursor: Cursor) -> None: ...

    def moved(self, cursor: Cursor) -> None: ...


def a_job() -> DeliveryJob:
    partition = Partition("t", 0)
    message = Message(Record(0, 0, None, b"{}", []), partition)
    return DeliveryJob(
        message, Cursor(Owner(), partition, Progress(subscription_id="s", offset=0)), 60.0
    )


@asynccontextmanager
async def an_owner() -> AsyncIterator[SlotOwner]:
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        yield SlotOwner(tasks)


async def test_keeps_nothing_of_a_request_that_has_landed() -> None:
    async with an_owner() as owner:
        RequestSlot(owner).send(a_job())
        listener, request = owner.theirs.listener, owner.theirs.request
        assert listener is not None
        assert request is not None
        assert request() is not None
        listener.on_response(Delivered(status=200))
        gc.collect()
        assert request() is None
        assert len(owner.freed_slots) == 1


async def test_hears_once_of_a_message_that_is_awaited_because_its_request_broke() -> None:
    async with an_owner() as owner:
        owner.theirs.broken = True
        RequestSlot(owner).send(a_job())
        assert owner.theirs.listener is not None
        owner.theirs.listener.on_response(Delivered(status=204))
    assert owner.outcomes == [Delivered(status=200)]
    assert len(owner.freed_slots) == 1
