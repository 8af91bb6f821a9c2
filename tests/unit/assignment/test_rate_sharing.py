"""The exchange among workers about rates: what it costs, and what it does when nobody answers."""

from collections.abc import Collection, Mapping

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition
from app.domain.runtime.rate_sharing import Loan, RateNote
from workers.assignment.negotiation import OVER_S
from workers.assignment.rate_sharing import SILENCE_S, OwnedSubscription, RateSharing
from workers.delivery.share import Demand, Share
from workers.delivery.stall_watchdog import QUIET_S, STALL_S, StallWatchdog
from workers.delivery.tickets import tickets_of

TOPIC = Topic(name="shop.orders", partitions=4)
LIMIT = 400
IDLE = Demand(part=LIMIT / 2, used=0, waiting=0)
BUSY = Demand(part=LIMIT / 2, used=LIMIT // 2, waiting=10_000)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Notes:
    """The notes of the others, and what was asked and said."""

    def __init__(self) -> None:
        self.down = False
        self.reads = 0
        self.of_others: list[RateNote] = []
        self.said: list[Collection[RateNote]] = []

    async def others(self) -> Collection[RateNote]:
        if self.down:
            raise StorageUnavailableError("down")
        self.reads += 1
        return self.of_others

    async def leave_notes(self, notes: Collection[RateNote], drop: Collection[str]) -> None:
        del drop
        self.said.append(notes)


class RatedLines:
    """Consumers that do as they are told."""

    def __init__(self) -> None:
        self.watchdog = StallWatchdog()
        self.shares: dict[str, Share] = {}
        self.busy: dict[str, Demand] = {}

    def share(self, subscription_id: str, share: Share) -> None:
        self.shares[subscription_id] = share

    def demands(self) -> Mapping[str, Demand]:
        return self.busy


class One:
    """A worker that owns some partitions of a topic with some subscriptions."""

    def __init__(self, *, owned: set[int], subscriptions: int = 1) -> None:
        self.clock, self.consumers, self.notes = Clock(), RatedLines(), Notes()
        self.sharing = RateSharing("me", self.consumers, self.notes, clock=self.clock)
        self.sharing.assigned([Partition(TOPIC.name, index) for index in owned])
        self.sharing.hold(
            OwnedSubscription(a_subscription(f"s{number}"), TOPIC, frozenset(owned))
            for number in range(subscriptions)
        )

    def rate(self, subscription_id: str = "s0") -> float:
        share = self.consumers.shares[subscription_id]
        return share.rate(share.held(self.clock.now)[0])

    async def pass_time(self, seconds: int) -> None:
        """A round each second."""
        for _ in range(seconds):
            self.clock.now += 1
            self.sharing.check()
            await self.sharing.run_round()


def a_subscription(new_id: str) -> Subscription:
    return Subscription(
        id=new_id,
        topic=TOPIC.name,
        name=new_id,
        endpoint="http://a.test/",
        policy=DeliveryPolicy(rate=LIMIT),
    )


def asking(*, number: int, partitions: int = TOPIC.partitions) -> RateNote:
    """Another worker would have half of all there is."""
    return RateNote(
        subscription_id="s0",
        worker_id="other",
        partitions=partitions,
        number=number,
        wanted=100,
    )


async def test_who_has_all_partitions_looks_once_and_says_nothing() -> None:
    one = One(owned={0, 1, 2, 3})
    one.consumers.busy["s0"] = Demand(LIMIT, LIMIT, 10_000)
    await one.pass_time(20)
    assert (one.notes.reads, one.notes.said) == (1, [])
    assert one.rate() == LIMIT


async def test_any_number_of_subscriptions_is_one_look_and_one_statement_a_round() -> None:
    one = One(owned={0, 1}, subscriptions=500)
    await one.pass_time(1)
    one.consumers.busy.update(dict.fromkeys(one.consumers.shares, BUSY))
    reads = one.notes.reads
    await one.pass_time(3)
    assert one.notes.reads == reads + 3
    assert [len(notes) for notes in one.notes.said] == [500, 500, 500]


async def test_idle_subscriptions_are_not_written_of() -> None:
    one = One(owned={0, 1}, subscriptions=5)
    one.consumers.busy.update(dict.fromkeys(one.consumers.shares, IDLE))
    await one.pass_time(10)
    assert one.notes.said == []


async def test_partitions_count_when_it_was_read_that_nothing_of_them_is_lent() -> None:
    one = One(owned={0, 1})
    assert one.rate() == 0
    await one.pass_time(1)
    assert one.rate() == LIMIT / 2


async def test_without_a_database_they_count_when_all_loans_must_be_over() -> None:
    one = One(owned={0, 1})
    one.notes.down = True
    one.clock.now += OVER_S - 0.1
    assert one.rate() == 0
    one.clock.now += 0.2
    assert one.rate() == LIMIT / 2


async def test_what_the_owner_before_has_lent_is_left_alone_until_it_is_over() -> None:
    one = One(owned={0, 1})
    lent = tickets_of(frozenset({1}), TOPIC.partitions)
    one.notes.of_others = [
        RateNote(
            subscription_id="s0",
            worker_id="dead",
            partitions=TOPIC.partitions,
            number=7,
            lent={"other": Loan(3, lent, lent)},
        )
    ]
    await one.pass_time(1)
    assert one.rate() == LIMIT / 4
    await one.pass_time(4)
    assert one.rate() == LIMIT / 4
    await one.pass_time(2)
    # The note is still there; what it says has not become new by being read again.
    assert one.rate() == LIMIT / 2


async def test_who_hears_nothing_for_long_sends_half_until_it_hears_again() -> None:
    one = One(owned={0, 1})
    await one.pass_time(3)
    one.notes.down = True
    await one.pass_time(int(SILENCE_S))
    assert one.rate() == LIMIT / 2
    await one.pass_time(1)
    assert one.rate() == LIMIT / 4
    one.notes.down = False
    await one.pass_time(1)
    assert one.rate() == LIMIT / 2


async def test_who_has_all_partitions_does_not_mind_hearing_nothing() -> None:
    one = One(owned={0, 1, 2, 3})
    await one.pass_time(1)
    one.notes.down = True
    await one.pass_time(20)
    assert one.rate() == LIMIT


async def test_who_was_stopped_for_long_lends_nothing_before_it_can_know_what_it_has_lost() -> None:
    one = One(owned={0, 1})
    one.consumers.busy["s0"] = IDLE
    await one.pass_time(4)
    one.notes.of_others = [asking(number=1)]
    one.clock.now += STALL_S
    await one.sharing.run_round()
    assert (one.rate(), one.notes.said) == (LIMIT / 2, [])
    one.sharing.check()
    one.clock.now += QUIET_S - 0.1
    await one.sharing.run_round()
    assert (one.rate(), one.notes.said) == (LIMIT / 2, [])
    one.clock.now += 0.2
    one.sharing.check()
    await one.sharing.run_round()
    assert one.rate() < LIMIT / 4


@pytest.mark.parametrize(("partitions", "are_read"), [(4, True), (5, False)])
async def test_what_is_lent_is_not_used_when_it_is_said(partitions: int, *, are_read: bool) -> None:
    one = One(owned={0, 1})
    one.consumers.busy["s0"] = IDLE
    await one.pass_time(3)
    one.notes.of_others = [asking(number=1, partitions=partitions)]
    await one.pass_time(1)
    assert (one.rate() < LIMIT / 4) is are_read
    lent = sum(
        loan.tickets.bit_count()
        for notes in one.notes.said
        for note in notes
        for loan in note.lent.values()
    )
    assert one.rate() + lent * LIMIT / 200 == pytest.approx(LIMIT / 2)
