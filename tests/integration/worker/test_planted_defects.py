"""Parts of the delivery path that raise what they never should, for one of two subscriptions.

The other one gets every message, and each message of the first ends as well.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.changes import LastChange
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import DeliveryPolicy, Ordering, Subscription
from app.domain.circuit import CircuitBreaker
from app.domain.commit import Progress
from app.domain.delivery import RETRIES_EXHAUSTED, Delivered, Discarded, Outcome
from app.domain.discards.undelivered import Undelivered
from app.domain.health.indicators import Thresholds, problems, signs_of
from app.domain.message import Message, NewRecord, Partition, Record
from app.domain.runtime.receipt import FinalOutcome, Receipt
from app.domain.status import CursorStatus, SubscriptionLoad
from app.domain.trace import TrackingMode
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import Budget
from app.log.interface import Chunk, LogTopic
from app.tracing.buffer import TraceBuffer
from app.tracing.packs import PlainRow
from tests.fakes.memory_log import MemoryLog
from tests.fakes.signal import Signal
from tests.fakes.supervised import until as turns_until
from tests.fakes.worker import until
from workers.assignment.reporter import Reporter
from workers.consumer.commit.committer import Committer
from workers.consumer.commit.receipts import Receipts
from workers.consumer.endpoint import Endpoint
from workers.consumer.subscription_consumers import SubscriptionConsumers
from workers.delivery.batch import MessageBatch
from workers.delivery.circuits import CircuitMember, Circuits, LiveCircuit
from workers.delivery.in_flight import ResponseListener
from workers.delivery.share import Share
from workers.reading.decoder import decoded
from workers.reading.holds import Holds
from workers.reading.reader import Reader

COUNT: Final = 20
PARTITION: Final = Partition("shop.orders", 0)
POLICY: Final = DeliveryPolicy(
    rate=100_000,
    adaptive_rate=False,
    max_retries=1,
    message_backoff=timedelta(milliseconds=1),
    batch_time=timedelta(milliseconds=1),
)


class UnheardOfError(Exception):
    """What nobody expects."""


ERRORS: Final = (RecursionError, MemoryError, UnheardOfError)
Raises = Callable[[], None]


def subscription(name: str) -> Subscription:
    return Subscription(
        id=name, topic=PARTITION.topic, name=name, endpoint="http://a.test/", policy=POLICY
    )


class ScriptedEndpoint:
    """Takes every message, unless it is to raise first; what it is asked to refuse it refuses."""

    def __init__(self, desk: "Desk", asked: Subscription, raises: Raises | None) -> None:
        self._desk = desk
        self._asked = asked
        self._raises = raises

    def begin(self, message: Message, retry_count: int, listener: ResponseListener) -> None:
        del message, retry_count, listener
        if self._raises is not None:
            self._raises()

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        del retry_count
        await asyncio.sleep(0)
        if self._raises is not None:
            self._raises()
        if self._asked.name in self._desk.refusing:
            return Discarded(reason="refused", status=400)
        single = message.messages if isinstance(message, MessageBatch) else (message,)
        self._desk.received.setdefault(self._asked.name, []).extend(m.offset for m in single)
        return Delivered(status=200)


class Bodies(ParsedBodies):
    """Raises for every second message."""

    def __init__(self, raises: Raises) -> None:
        super().__init__()
        self._raises = raises

    def of(self, message: Message, budget: Budget) -> Any:  # noqa: ANN401 - JSON is of any type
        if message.offset % 2:
            self._raises()
        return super().of(message, budget)


class Traces(TraceBuffer):
    """Raises for what the broken subscription does."""

    raises: Raises | None = None

    def add(self, row: PlainRow) -> None:
        if self.raises is not None:
            self.raises()
        super().add(row)


class Desk:
    """The consumers of a worker with what they stand on, and parts of them to plant."""

    def __init__(self) -> None:
        self.received: dict[str, list[int]] = {}
        self.refusing: set[str] = set()
        self.undelivered: list[Undelivered] = []
        # Offsets of the messages that are in the dead-letter topic.
        self.lettered: list[int] = []
        # For this one alone parts raise, where it is said which message they are called for.
        self.spoilt: int | None = None
        # By the place in which they are called.
        self.raising: dict[str, Raises] = {}
        self.changed = Signal()

    def destination(self, asked: Subscription) -> Endpoint:
        if asked.name == "broken":
            self.call("destination")
        raises = self.raising.get("attempt") if asked.name == "broken" else None
        return ScriptedEndpoint(self, asked, raises)

    def call(self, place: str) -> None:
        if place in self.raising:
            self.raising[place]()

    async def write(self, undelivered: Undelivered) -> None:
        self.call("write")
        self.undelivered.append(undelivered)
        self.changed.send()

    async def append(self, message: Message, discarded: Undelivered, topic: str) -> None:
        del discarded, topic
        if self.spoilt in {None, message.offset}:
            self.call("dead-letter")
        await asyncio.sleep(0)
        self.lettered.append(message.offset)

    def suspend(self, asked: Subscription, reason: str) -> None:
        raise AssertionError(asked.group, reason)

    async def unmark(self, retransmission_id: str, positions: Sequence[tuple[int, int]]) -> None:
        raise AssertionError(retransmission_id, positions)

    async def post(self, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        del receipts


class Told(Receipts):
    """Raises when somebody is told of a message of the broken subscription."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._desk = desk

    def add(
        self,
        header: bytes,
        subscription_id: str,
        outcome: FinalOutcome,
        *,
        why: Discarded | None = None,
    ) -> None:
        if subscription_id == "broken":
            self._desk.call("receipt")
        super().add(header, subscription_id, outcome, why=why)


@asynccontextmanager
async def consumers_of(
    desk: Desk, *, partitions: int = 1, holds: Holds | None = None
) -> AsyncIterator[tuple[SubscriptionConsumers, MemoryLog]]:
    log = MemoryLog()
    await log.create_topic(
        LogTopic(
            name=PARTITION.topic,
            partitions=partitions,
            retention=timedelta(days=1),
            message_size_max=1_000,
        )
    )
    async with log.tail() as tail, asyncio.TaskGroup() as tasks:
        reader = Reader(log, tail, holds=holds)
        traces = Traces(_nowhere, worker="w")
        traces.raises = desk.raising.get("trace")
        committer = Committer(log, traces)
        consumers = SubscriptionConsumers(
            endpoints=desk,
            reader=reader,
            committer=committer,
            undelivered=desk,
            dead_letters=desk,
            suspensions=desk,
            marks=desk,
            receipts=Told(desk),
            traces=traces,
            tasks=tasks,
        )
        running = [tasks.create_task(each) for each in (reader.run(), committer.run())]
        try:
            yield consumers, log
        finally:
            consumers.close()
            for task in running:
                task.cancel()


async def _nowhere(records: Sequence[NewRecord]) -> None:
    del records


FILTERS: Final = (Filter(type=FilterType.JSONPATH, path="$.n", matcher=".*"),)
LETTERED: Final[dict[str, Any]] = {"dead_letter": DeadLetter(topic="shop.dead")}
TRACED: Final[dict[str, Any]] = {"tracking": TrackingMode.ALL}
BATCHED: Final[dict[str, Any]] = {
    "delivery_type": DeliveryType.BATCH,
    "batch_format": BatchFormat.PLAIN,
}
PLANTS: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("bodies", {"filters": FILTERS}),
    ("bodies", {"filters": FILTERS, "ordering": Ordering.KEY}),
    ("bodies", {"filters": FILTERS, "ordering": Ordering.PARTITION}),
    ("bodies", {"filters": FILTERS} | BATCHED),
    ("destination", {}),
    ("destination", BATCHED),
    ("attempt", {}),
    ("attempt", {"ordering": Ordering.PARTITION}),
    ("trace", TRACED),
    ("trace", TRACED | BATCHED),
    ("receipt", {}),
    ("write", {"refused": True}),
    ("write", {"refused": True} | BATCHED),
    ("dead-letter", {"refused": True} | LETTERED),
)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("place", "settings"), PLANTS)
async def test_a_part_that_raises_costs_its_own_messages_and_no_others(
    place: str, settings: Mapping[str, Any], error: type[Exception]
) -> None:
    desk, changes = Desk(), dict(settings)
    if changes.pop("refused", False):
        desk.refusing.add("broken")

    def raises() -> None:
        if place == "write":
            # Once: what cannot be recorded at all is tried again for ever.
            del desk.raising[place]
        raise error("planted")

    desk.raising[place] = raises
    broken = replace(subscription("broken"), **changes)
    with capture_logs() as logs:
        async with consumers_of(desk) as (consumers, log):
            if place == "bodies":
                consumers.bodies = Bodies(raises)
            start = {each: Progress(subscription_id=each, offset=0) for each in ("broken", "well")}
            well = subscription("well")
            consumers.open({PARTITION: [(broken, start["broken"]), (well, start["well"])]})
            for each in start:
                consumers.share(each, Share.owned(POLICY.rate, {0}, 1))
            cursors = {key.subscription_id: cursor for key, cursor in consumers.cursors()}
            published = [
                NewRecord(
                    value=b'{"n":%d}' % n,
                    key=b"k",
                    headers=((b"w", b"0" * 32 + b" 1 9999999999999"),),
                )
                for n in range(COUNT)
            ]
            await log.append(PARTITION.topic, published)
            await until(desk.changed, lambda: sum(cursors["broken"].finished()[:3]) == COUNT)
            await until(desk.changed, lambda: cursors["well"].finished().delivered == COUNT)
            defects = {
                consumer.subscription.name: consumer.defects.count
                for consumer in consumers.consumers()
            }
    assert sorted(desk.received["well"]) == list(range(COUNT))
    assert defects["broken"] > 0
    assert defects["well"] == 0
    said = [each for each in logs if each["event"] == "internal_error"]
    assert {each["subscription"] for each in said} == {broken.group}
    assert len(said) == len({each["step"] for each in said})
    # None is lost: each was delivered, or is recorded with its reason.
    recorded = {each.offset: each.reason for each in desk.undelivered}
    got = set(desk.received.get("broken", ()))
    assert recorded.keys() | got == set(range(COUNT))
    reasons = {"refused", f"Internal error: {error.__name__}", RETRIES_EXHAUSTED}
    assert reasons.issuperset(recorded.values())


async def test_an_error_in_recording_one_of_a_batch_costs_the_others_nothing() -> None:
    desk, spoilt = Desk(), COUNT // 2
    desk.refusing.add("broken")
    desk.spoilt = spoilt

    def raises() -> None:
        raise UnheardOfError("planted")

    desk.raising["dead-letter"] = raises
    broken = replace(subscription("broken"), **LETTERED, **BATCHED)
    async with consumers_of(desk) as (consumers, log):
        consumers.open({PARTITION: [(broken, Progress(subscription_id="broken", offset=0))]})
        consumers.share("broken", Share.owned(POLICY.rate, {0}, 1))
        (cursor,) = (cursor for _, cursor in consumers.cursors())
        await log.append(PARTITION.topic, [NewRecord(value=b"1", key=b"k")] * COUNT)
        await until(desk.changed, lambda: cursor.finished().discarded == COUNT)
    others = set(range(COUNT)) - {spoilt}
    assert set(desk.lettered) == others
    assert {each.offset for each in desk.undelivered if each.headers} == others
    assert {each.offset for each in desk.undelivered} == set(range(COUNT))


class Once:
    """Raises at the first calls, and at no other."""

    def __init__(self, times: int = 1) -> None:
        self.calls = 0
        self._times = times

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= self._times:
            raise UnheardOfError("planted")


class BrokenCircuits(Circuits):
    """Lets nobody in at first."""

    def __init__(self, once: Once) -> None:
        super().__init__()
        self._once = once

    def join(self, name: str, member: CircuitMember, *, by: str) -> LiveCircuit:
        self._once()
        return super().join(name, member, by=by)


PATIENT: Final = replace(
    POLICY, max_retries=None, message_ttl=timedelta(hours=1), message_backoff=timedelta(seconds=1)
)


async def test_an_endpoint_that_could_not_be_made_is_made_later_without_a_change() -> None:
    desk, once = Desk(), Once()
    desk.raising["destination"] = once
    broken = replace(subscription("broken"), policy=PATIENT)
    async with consumers_of(desk) as (consumers, log):
        consumers.open({PARTITION: [(broken, Progress(subscription_id="broken", offset=0))]})
        consumers.share("broken", Share.owned(POLICY.rate, {0}, 1))
        (cursor,) = (cursor for _, cursor in consumers.cursors())
        await log.append(PARTITION.topic, [NewRecord(value=b"1", key=b"k")] * COUNT)
        await until(desk.changed, lambda: cursor.finished().delivered == COUNT)
    assert once.calls == 2
    assert not desk.undelivered


class Reports:
    """Keeps what a worker reports last."""

    def __init__(self) -> None:
        self.loads: Sequence[SubscriptionLoad] = ()

    async def beat(self, *, applied: LastChange, partitions: int) -> None:
        del applied, partitions

    async def write(
        self, cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad]
    ) -> None:
        del cursors
        self.loads = loads


async def test_settings_that_could_not_be_applied_are_applied_later_without_a_change() -> None:
    desk, once = Desk(), Once()
    before = replace(subscription("broken"), policy=PATIENT)
    async with consumers_of(desk) as (consumers, log):
        consumers.circuits = BrokenCircuits(once)
        consumers.open({PARTITION: [(before, Progress(subscription_id="broken", offset=0))]})
        consumers.share("broken", Share.owned(POLICY.rate, {0}, 1))
        (cursor,) = (cursor for _, cursor in consumers.cursors())
        consumers.configure(replace(before, circuit_breaker=CircuitBreaker(), filters=FILTERS))
        (consumer,) = consumers.consumers()
        reports = Reports()
        await Reporter("w1", consumers, reports).write([])
        (reported,) = [load.output for load in reports.loads]
        assert (reported.rate, reported.unapplied) == (0.0, True)
        assert reported.reason.endswith("Internal error: UnheardOfError")
        assert consumer.defects.count == 1
        # Meanwhile nothing is sent by some of the settings without the others.
        await log.append(PARTITION.topic, [NewRecord(value=b"1", key=b"k")] * COUNT)
        await until(desk.changed, lambda: sum(cursor.finished()[:3]) == COUNT)
        assert cursor.finished().filtered == COUNT
        assert not consumer.output().unapplied
    assert once.calls == 2


async def test_what_a_worker_waits_for_is_reported_and_is_a_problem() -> None:
    desk, start = Desk(), datetime(2026, 1, 31, 12, tzinfo=UTC)
    moments = (start + timedelta(minutes=minute) for minute in count())
    async with consumers_of(desk, holds=Holds(lambda: next(moments))) as (consumers, log):
        progress = Progress(subscription_id="held", offset=0)
        consumers.open({PARTITION: [(subscription("held"), progress)]})
        consumers.share("held", Share.owned(POLICY.rate, {0}, 1))
        (consumer,) = consumers.consumers()
        assert consumer.hold is None
        avro = NewRecord(value=b"7", headers=((b"sv", b"1"), (b"ct", b"avro/binary")))
        await log.append(PARTITION.topic, [avro])
        await turns_until(lambda: consumer.hold is not None)
        reports = Reports()
        await Reporter("w1", consumers, reports).write([])
    said = "Partition 0 waits for word that the topic is AVRO since 2026-01-31T12:00:00+00:00"
    (output,) = [load.output for load in reports.loads]
    assert (output.held, output.reason, output.since) == (said, said, start)
    signs = signs_of(reports.loads, lag=timedelta(), client_errors=False)
    assert [each.description for each in problems(signs, Thresholds())] == [said]


async def test_a_subscription_that_could_not_be_begun_begins_later_without_a_change() -> None:
    # It is begun, and gets its settings at once, and once more a second later.
    desk, once = Desk(), Once(times=2)
    broken = replace(
        subscription("broken"), policy=PATIENT, circuit_breaker=CircuitBreaker(), filters=FILTERS
    )
    starts = [
        (each, Progress(subscription_id=each.id, offset=0))
        for each in (broken, subscription("healthy"))
    ]
    async with consumers_of(desk) as (consumers, log):
        consumers.circuits = BrokenCircuits(once)
        consumers.open({PARTITION: starts})
        for each, _ in starts:
            consumers.share(each.id, Share.owned(POLICY.rate, {0}, 1))
        found = {key.subscription_id: cursor for key, cursor in consumers.cursors()}
        await log.append(PARTITION.topic, [NewRecord(value=b"1", key=b"k")] * COUNT)
        await until(desk.changed, lambda: found["healthy"].finished().delivered == COUNT)
        assert sum(found["broken"].finished()[:3]) == 0
        await until(desk.changed, lambda: sum(found["broken"].finished()[:3]) == COUNT)
        assert found["broken"].finished().filtered == COUNT


class _BrokenTopic:
    """Makes no message of the record at offset 1."""

    def message(self, record: Record, partition: Partition) -> Message:
        if record.offset == 1:
            raise RecursionError
        return Message(record, partition)


def test_a_record_that_cannot_be_read_is_discarded_with_its_value_and_others_are_read() -> None:
    records = [Record(n, 0, None, b"v%d" % n, []) for n in range(3)]
    chunk = Chunk(partition=PARTITION, offset=0, next_offset=3, records=records, size=9)
    batch = decoded(chunk, schemas=_BrokenTopic())  # type: ignore[arg-type]  # a schema's part
    assert [each.body for each in batch.messages] == [b"v0", None, b"v2"]
    spoilt = batch.messages[1]
    assert (spoilt.problem, spoilt.unreadable, spoilt.stored) == (
        "Internal error: RecursionError",
        True,
        b"v1",
    )
