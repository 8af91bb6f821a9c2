"""The rates that a worker shares while its partitions go: what it lends surprises nobody."""

import asyncio
from collections.abc import Collection

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.message import Partition
from app.domain.runtime.rate_sharing import Loan, RateNote
from tests.fakes.supervised import Supervised, supervised, until
from tests.fakes.worker import World

PARTITIONS = 2
ORDERS = Partition("shop.orders", 0)


async def lending(parts: Supervised) -> Subscription:
    """A subscription whose rate we lend to another worker, w2, that asked for it."""
    topic = await parts.world.topic(partitions=PARTITIONS)
    subscription = await parts.world.subscribe(topic)
    await parts.apply()
    parts.ownership.assign(ORDERS)
    await parts.until_open(parts.key(subscription))
    asked = 0

    def is_lent() -> bool:
        loan = lent(parts, subscription)
        return loan is not None and loan.tickets > 0

    while not is_lent():
        asked += 1
        await ask_and_answer(parts, subscription, number=asked)
        await asyncio.sleep(0)
    return subscription


async def ask_and_answer(parts: Supervised, subscription: Subscription, *, number: int) -> None:
    parts.world.plane.notes["w2", subscription.id] = RateNote(
        subscription_id=subscription.id,
        worker_id="w2",
        partitions=PARTITIONS,
        number=number,
        wanted=50,
    )
    await parts.rates.run_round()


def lent(parts: Supervised, subscription: Subscription) -> Loan | None:
    note = parts.world.plane.notes.get(("w1", subscription.id))
    return note.lent.get("w2") if note else None


class HeldWrites:
    """Makes writing notes take as long as `go_on` says."""

    def __init__(self, parts: Supervised) -> None:
        self._leave_notes = parts.database.leave_notes
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        parts.database.leave_notes = self  # type: ignore[method-assign]

    async def __call__(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        self.begun.set()
        await self.go_on.wait()
        await self._leave_notes(notes, drop)


async def test_a_revoked_partition_is_let_go_when_others_can_read_what_is_lent_of_it() -> None:
    async with supervised(World()) as parts, asyncio.TaskGroup() as tasks:
        subscription = await lending(parts)
        writes = HeldWrites(parts)
        tasks.create_task(ask_and_answer(parts, subscription, number=10_000))
        await writes.begun.wait()
        parts.ownership.revoke(ORDERS)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await asyncio.Event().wait()
        assert parts.ownership.released == []
        writes.go_on.set()
        await until(lambda: bool(parts.ownership.released))


async def test_who_stops_lends_nothing_any_more() -> None:
    async with supervised(World()) as parts:
        subscription = await lending(parts)
        await parts.supervisor.stop()
        await ask_and_answer(parts, subscription, number=10_000)
        # The loan is not renewed, and over in some seconds.
        loan = lent(parts, subscription)
        assert loan is not None
        assert loan.number < 10_000
