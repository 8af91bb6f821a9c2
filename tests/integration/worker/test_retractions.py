"""A worker dies between a discard and its commit: the list says how the message ended at last."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.seek import Seek
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Ack, Topic
from app.domain.commit import Progress, parse_progress
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.discards.retractions import Entry, Retraction, entry_of
from app.domain.message import NewRecord, Partition
from app.domain.status import CursorStatus
from app.domain.streams import UNDELIVERED
from app.log.interface import Committed, Position
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import Attempt, World, delivered, until
from tests.integration.worker.tracing import statuses, tracked

NOBODYS = CursorStatus(
    subscription_id="",
    topic="",
    partition=0,
    worker_id="",
    offset=0,
    end=0,
    delivered=0,
    discarded=0,
    volume=0,
)
REFUSED = Discarded(reason="bad", status=400)
TAKEN = Delivered(status=200)
BUSY = Retry(reason="busy", status=503)


class Interrupted(MemoryLog):
    """A log that takes no commits once as many are undelivered as `commits_until` says."""

    def __init__(self) -> None:
        super().__init__()
        self.commits_until: int | None = None
        self.refusals: Counter[str] = Counter()
        self.held: asyncio.Event | None = None

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        if self.commits_until is not None and self.recorded() > self.commits_until:
            return {(group, p): "not now" for group, mine in offsets.items() for p in mine}
        failed = await super().commit(offsets)
        self.refusals.update(group for group, _ in failed)
        self.changed.send()
        return failed

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        if self.held is not None and topic == UNDELIVERED and records[0].value:
            await self.held.wait()
        return await super().append(topic, records, ack=ack)

    async def until_refused(self, group: str, count: int) -> None:
        await until(self.changed, lambda: self.refusals[group] >= count)

    def entries(self) -> list[Entry | None]:
        known = UNDELIVERED in self.topics
        return [entry_of(record) for record in self.records(UNDELIVERED)] if known else []

    def recorded(self) -> int:
        return len(self.entries()) - len(self.retractions())

    def retractions(self) -> list[Retraction]:
        return [entry for entry in self.entries() if isinstance(entry, Retraction)]


class Scene:
    """One subscription in one partition, whose endpoint refuses what `refused` says."""

    topic: Topic
    subscription: Subscription

    def __init__(self) -> None:
        self.log = Interrupted()
        self.world = World(self.log)
        self.world.memory = self.log
        self.refused: Callable[[bytes], bool] = lambda _: True
        # Whether the endpoint asks to be tried again later.
        self.busy = False

    async def begin(self, **policy: Any) -> "Scene":  # noqa: ANN401 - fields of the policy
        self.topic = await self.world.topic(partitions=1)
        self.subscription = await self.world.subscribe(self.topic, **policy)
        self.world.endpoints.replies[self.subscription.endpoint] = self._reply
        return self

    def _reply(self, attempt: Attempt) -> Outcome:
        if self.busy:
            return BUSY
        return REFUSED if self.refused(attempt.body) else TAKEN

    async def lose_a_worker(self, *bodies: bytes, recorded: int) -> None:
        """Have the bodies refused and recorded, and no commit after the first record."""
        self.log.commits_until = self.log.recorded()
        async with self.world.doomed_worker("lost"):
            await self.world.publish(self.topic, *bodies)
            await self.world.plane.until(lambda: len(self.listed()) == recorded)
        self.log.commits_until = None

    def listed(self) -> list[bytes]:
        return sorted(each.body for each in self.world.plane.undelivered)

    def progress(self) -> Progress:
        committed = self.log.commits[self.subscription.group][Partition(self.topic.name, 0)]
        found = parse_progress(self.subscription.id, committed.offset, committed.metadata)
        assert found is not None
        return found

    def commit(self, progress: Progress) -> None:
        """Replace the commit, as a log does that applies an earlier one late."""
        committed = Committed(progress.offset, progress.metadata())
        self.log.commits[self.subscription.group][Partition(self.topic.name, 0)] = committed

    async def until_ended(self, count: int) -> None:
        await self.world.plane.until(lambda: self.ended() == count)

    async def until_held_by(self, worker: str) -> None:
        """Wait until that worker has its cursor open."""
        await self.world.plane.until(lambda: self.status().worker_id == worker)

    def ended(self) -> int:
        status = self.status()
        return status.delivered + status.discarded + status.filtered

    def status(self) -> CursorStatus:
        """What was reported last; of nobody, if nothing was."""
        here = self.subscription.id, Partition(self.topic.name, 0)
        return self.world.plane.statuses.get(here) or NOBODYS

    async def until_recorded(self, count: int) -> None:
        """Wait until the recorder is through with so many discards, retracted or not."""
        await self.world.plane.until(lambda: self.log.recorded() == count)
        await self.world.plane.until(self._is_recorded)

    def _is_recorded(self) -> bool:
        parts = [Partition(UNDELIVERED, n) for n in range(4)]
        return all(self.world.plane.stream.get(p, 0) == len(self.log.of(p)) for p in parts)

    def producer_epoch(self) -> str:
        return self.progress().producer_epoch

    def counts(self) -> tuple[int, int]:
        progress = self.progress()
        return progress.delivered, progress.discarded


async def test_what_is_taken_after_all_is_delivered_and_listed_no_more() -> None:
    scene = await Scene().begin()
    await scene.lose_a_worker(b"1", b"2", recorded=2)
    scene.refused = lambda body: body == b"2"
    async with scene.world.worker("next"):
        await scene.until_ended(2)
        await scene.world.plane.until(lambda: scene.listed() == [b"2"])
    assert scene.counts() == (1, 1)


async def test_what_was_committed_before_its_worker_died_stays_listed() -> None:
    scene = await Scene().begin(in_flight_max=1)
    async with scene.world.doomed_worker("first"):
        await scene.world.publish(scene.topic, b"0", b"1")
        await scene.until_ended(2)
    await scene.lose_a_worker(b"2", recorded=3)
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(3)
        await scene.world.plane.until(lambda: scene.listed() == [b"0", b"1"])
    assert scene.counts() == (1, 2)


async def test_what_several_workers_recorded_before_they_died_is_retracted() -> None:
    scene = await Scene().begin()
    await scene.lose_a_worker(b"1", recorded=1)
    await scene.lose_a_worker(b"2", recorded=2)
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(2)
        await scene.world.plane.until(lambda: scene.listed() == [])
    assert scene.counts() == (2, 0)


async def test_each_message_of_a_batch_is_listed_no_more() -> None:
    scene = await Scene().begin(batch_size=2, batch_time=timedelta(milliseconds=20))
    batched = replace(
        scene.subscription, delivery_type=DeliveryType.BATCH, batch_format=BatchFormat.NDJSON
    )
    scene.world.plane.put(batched)
    await scene.lose_a_worker(b"1", b"2", recorded=2)
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(2)
        await scene.world.plane.until(lambda: scene.listed() == [])
    assert scene.counts() == (2, 0)


async def test_what_is_filtered_out_after_all_is_listed_no_more() -> None:
    scene = await Scene().begin()
    await scene.lose_a_worker(b'{"kind": "unwanted"}', recorded=1)
    wanted = Filter(type=FilterType.JSONPATH, path="$.kind", matcher="wanted")
    scene.world.plane.put(replace(scene.subscription, filters=(wanted,)))
    async with scene.world.worker("next"):
        await scene.until_ended(1)
        await scene.world.plane.until(lambda: scene.listed() == [])
    assert scene.progress().filtered == 1


async def test_the_trace_has_the_discard_and_the_delivery_as_they_happened() -> None:
    scene = await Scene().begin()
    tracked(scene.world, scene.subscription)
    scene.log.commits_until = 0
    async with scene.world.doomed_worker("lost"):
        await scene.world.publish(scene.topic, b"1")
        await scene.world.plane.until(lambda: "DISCARDED" in statuses(scene.world))
    scene.log.commits_until = None
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(1)
        await scene.world.plane.until(lambda: "SUCCESS" in statuses(scene.world))
        await scene.world.plane.until(lambda: scene.listed() == [])
    ends = [each for each in statuses(scene.world) if each != "INFLIGHT"]
    assert ends == ["FAILED", "DISCARDED", "SUCCESS"]


async def test_what_was_refused_before_a_move_back_is_history_and_stays() -> None:
    scene = await Scene().begin(in_flight_max=1)
    async with scene.world.doomed_worker("first"):
        await scene.world.publish(scene.topic, b"0", b"1")
        await scene.until_ended(2)
    await scene.lose_a_worker(b"2", recorded=3)
    seek = Seek.after(None, {0: 0}, {}, now_ms=1)
    scene.world.plane.put(replace(scene.subscription, seek=seek))
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(5)
        await scene.world.plane.until(lambda: scene.listed() == [b"0", b"1"])
    assert scene.counts() == (3, 2)


async def test_what_is_refused_again_after_a_move_back_is_listed_when_its_worker_dies() -> None:
    scene = await Scene().begin(in_flight_max=1)
    async with scene.world.worker("first"):
        await scene.world.publish(scene.topic, b"0", b"1")
        await scene.until_ended(2)
    scene.world.plane.put(replace(scene.subscription, seek=Seek.after(None, {0: 0}, {}, now_ms=1)))
    # It delivers the first, which was discarded before; the second is refused again.
    scene.refused = lambda body: body == b"1"
    async with scene.world.doomed_worker("second"):
        await scene.until_ended(4)
    async with scene.world.worker("next"):
        await scene.world.publish(scene.topic, b"2")
        await scene.until_ended(5)
    assert set(scene.listed()) == {b"0", b"1"}


async def test_a_worker_that_was_thought_dead_has_nothing_listed_any_more() -> None:
    scene = await Scene().begin()
    # Its record is on its way while all the others are made.
    scene.log.held = asyncio.Event()
    zombie = scene.world.a_worker("zombie")
    running = asyncio.create_task(zombie.run(asyncio.Event()))
    await scene.world.publish(scene.topic, b"1")
    await scene.world.plane.until(lambda: bool(scene.producer_epoch()))
    late, scene.log.held = scene.log.held, None
    scene.log.kill("zombie")
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.world.plane.until(lambda: bool(scene.world.plane.retractions))
        late.set()
        await scene.until_recorded(1)
        # The worker that was thought dead may report its discard, too.
        await scene.world.plane.until(lambda: scene.status().delivered == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.listed() == []


async def test_a_late_commit_passes_no_message_whose_discard_was_retracted() -> None:
    """The log applies it after the next worker has read the commit before it."""
    scene = await Scene().begin()
    await scene.lose_a_worker(b"1", recorded=1)
    before = scene.progress()
    late = replace(before, offset=before.offset + 1, discarded=1, producer_epoch="")
    scene.busy = True
    async with scene.world.worker("next"):
        await scene.world.plane.until(lambda: bool(scene.log.retractions()))
        await scene.world.plane.until(lambda: not scene.producer_epoch())
        scene.commit(late)
    scene.busy, scene.refused = False, lambda _: False
    async with scene.world.worker("last"):
        await scene.until_ended(1)
    assert (scene.counts(), scene.listed()) == ((1, 0), [])


async def test_nothing_is_said_where_nothing_was_discarded_or_workers_stop_in_order() -> None:
    scene = await Scene().begin(in_flight_max=4)
    async with scene.world.worker("first"):
        await scene.world.publish(scene.topic, *[b"%d" % n for n in range(10)])
        await scene.until_ended(10)
        assert scene.producer_epoch()
    assert not scene.producer_epoch()
    scene.refused = lambda _: False
    async with scene.world.doomed_worker("second"):
        await scene.world.publish(scene.topic, b"10")
        await scene.until_ended(11)
        assert not scene.producer_epoch()
    async with scene.world.worker("third"):
        await scene.world.publish(scene.topic, b"11")
        await scene.until_ended(12)
    assert scene.log.retractions() == []
    assert len(scene.listed()) == 10


async def test_nothing_is_said_of_one_that_had_nothing_left_to_send() -> None:
    scene = await Scene().begin()
    async with scene.world.doomed_worker("first"):
        await scene.world.publish(scene.topic, b"1")
        await scene.until_ended(1)
    assert scene.producer_epoch()
    async with scene.world.worker("next"):
        await scene.until_held_by("next")
        await scene.world.publish(scene.topic, b"2")
        await scene.until_ended(2)
    assert scene.log.retractions() == []
    assert scene.listed() == [b"1", b"2"]


async def test_what_the_log_has_no_more_stays_listed() -> None:
    scene = await Scene().begin()
    await scene.lose_a_worker(b"1", b"2", recorded=2)
    scene.log.trim(Partition(scene.topic.name, 0), 1)
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(1)
        await scene.world.plane.until(lambda: scene.listed() == [b"1"])


async def test_only_what_is_to_be_retracted_waits_for_the_stream() -> None:
    scene = await Scene().begin()
    other = await scene.world.subscribe(scene.topic, "other")
    await scene.lose_a_worker(b"1", recorded=1)
    scene.refused = lambda _: False
    scene.log.refusing.add(UNDELIVERED)
    async with scene.world.worker("next"):
        await scene.world.publish(scene.topic, b"2")
        await scene.world.plane.until(lambda: delivered(scene.world, other.id) == 2)
        assert scene.ended() == 0
        scene.log.refusing.clear()
        await scene.until_ended(2)
        await scene.world.plane.until(lambda: scene.listed() == [])


async def test_nothing_is_recorded_before_a_commit_says_whose_it_is() -> None:
    scene = await Scene().begin()
    scene.log.failing_commits[scene.subscription.group] = "not now"
    async with scene.world.worker("first"):
        await scene.world.publish(scene.topic, b"1")
        await scene.world.endpoints.until(lambda: len(scene.world.endpoints.attempts) == 1)
        await scene.log.until_refused(scene.subscription.group, 2)
        assert scene.log.recorded() == 0
        scene.log.failing_commits.clear()
        await scene.until_ended(1)
    assert scene.listed() == [b"1"]


async def test_one_that_is_taken_away_before_it_may_discard_sends_nothing_to_the_list() -> None:
    scene = await Scene().begin()
    scene.log.failing_commits[scene.subscription.group] = "not now"
    async with scene.world.doomed_worker("first"):
        await scene.world.publish(scene.topic, b"1")
        await scene.world.endpoints.until(lambda: len(scene.world.endpoints.attempts) == 1)
    scene.log.failing_commits.clear()
    scene.refused = lambda _: False
    async with scene.world.worker("next"):
        await scene.until_ended(1)
    assert scene.counts() == (1, 0)
    assert scene.log.entries() == []
