"""What a worker knows, what it wants open, and where that starts."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import Progress
from app.domain.message import Partition
from app.domain.status import CursorStatus
from app.log.interface import Committed
from workers.assignment.registry import Registry
from workers.assignment.start_positions import GROUPS_PER_CALL, StartFinder
from workers.consumer.subscription_consumers import CursorKey
from workers.delivery.share import Share

FIRST, SECOND = Partition("shop.orders", 0), Partition("shop.orders", 1)
OTHER = Partition("shop.other", 0)


def a_subscription(
    new_id: str, *, state: State = State.ACTIVE, topic: str = "shop.orders"
) -> Subscription:
    return Subscription(
        id=new_id, topic=topic, name=new_id, endpoint="http://a.test/", state=state, start={0: 7}
    )


def knowing(*subscriptions: Subscription) -> Registry:
    registry = Registry()
    registry.apply(
        Changes(number=1, topics=(Topic(name="shop.orders"),), subscriptions=subscriptions)
    )
    return registry


@pytest.mark.parametrize(
    ("state", "is_wanted"), [(State.ACTIVE, True), (State.PENDING, True), (State.SUSPENDED, False)]
)
def test_wants_a_cursor_for_each_owned_partition_unless_suspended(
    state: State, *, is_wanted: bool
) -> None:
    registry = knowing(a_subscription("a", state=state), a_subscription("b", topic="shop.none"))
    both = {CursorKey("a", FIRST), CursorKey("a", SECOND)}
    assert registry.wanted([FIRST, SECOND, OTHER]) == (both if is_wanted else set())
    groups = registry.resting_groups([FIRST, SECOND, OTHER])
    assert groups == ({} if is_wanted else {"shop.orders_a": [FIRST, SECOND]})


def test_wants_no_cursor_of_one_whose_secrets_cannot_be_read() -> None:
    registry = knowing(replace(a_subscription("a"), locked="its key is unknown"))
    assert registry.wanted([FIRST, SECOND]) == set()
    assert registry.resting_groups([FIRST]) == {"shop.orders_a": [FIRST]}


def test_a_deleted_subscription_is_unknown_and_its_successor_is_not() -> None:
    registry = knowing(a_subscription("old"))
    again = a_subscription("new")
    registry.apply(
        Changes(
            number=2,
            topics=(Topic(name="shop.orders"),),
            subscriptions=(again,),
            deleted_topics=frozenset({"shop.orders", "never.known"}),
            deleted_subscription_ids=frozenset({"old", "never known"}),
        )
    )
    assert registry.get("old") is None
    assert list(registry.of_topic("shop.orders")) == [again]
    assert registry.topics.keys() == {"shop.orders"}
    assert registry.last.number == 2


def test_what_another_server_of_the_database_does_not_have_is_deleted() -> None:
    registry = knowing(a_subscription("lost"), a_subscription("kept"))
    kept = (a_subscription("kept"),)
    there = Changes(number=1, is_complete=True, subscriptions=kept)
    changes = registry.with_deletions(there)
    assert changes.deleted_topics == {"shop.orders"}
    assert changes.deleted_subscription_ids == {"lost"}
    part = Changes(number=1, subscriptions=kept)
    assert registry.with_deletions(part) == part


def test_a_changed_subscription_takes_the_place_of_what_was_known() -> None:
    registry = knowing(a_subscription("a"))
    registry.apply(Changes(number=2, subscriptions=(a_subscription("a", state=State.SUSPENDED),)))
    assert registry.wanted([FIRST]) == set()


@pytest.mark.parametrize(("owned", "share"), [(1, 0.25), (4, 1.0), (5, 1.0)])
def test_a_share_of_the_rate_is_that_of_the_partitions(owned: int, share: float) -> None:
    held = Share.owned(400, range(owned), 4)
    assert held.rate(held.held(0.0)[0]) == 400 * share


class Commits:
    """The commits of a log."""

    def __init__(self, found: Mapping[Partition, Committed]) -> None:
        self._found = found

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        if len(groups) > GROUPS_PER_CALL:
            raise AssertionError("they would not be found before the call's deadline")
        return dict.fromkeys(groups, self._found)


class Copies:
    def __init__(self, *copies: CursorStatus) -> None:
        self._copies = copies

    async def cursors(self, subscription_id: str) -> Collection[CursorStatus] | None:
        if subscription_id == "deleted":
            return None
        return [copy for copy in self._copies if copy.subscription_id == subscription_id]


def starts(found: Mapping[Partition, Committed], *copies: CursorStatus) -> StartFinder:
    return StartFinder(Commits(found), Copies(*copies))  # type: ignore[arg-type]


async def test_starts_from_a_commit_of_its_own() -> None:
    subscription = a_subscription("a")
    progress = Progress(subscription_id="a", offset=9, finished=((11, 12),), delivered=3)
    found = {FIRST: Committed(9, progress.metadata())}
    wanted = [(subscription, FIRST), (subscription, SECOND)]
    assert await starts(found).committed(wanted) == ({(subscription, FIRST): progress}, {})


async def test_the_commits_of_thousands_are_all_found() -> None:
    subscriptions = [a_subscription(f"a{n}") for n in range(2 * GROUPS_PER_CALL + 1)]
    wanted = [(subscription, FIRST) for subscription in subscriptions]
    found = await starts({FIRST: Committed(9)}).committed(wanted)
    assert found.settled.keys() == set(wanted)


async def test_a_commit_of_another_incarnation_is_none() -> None:
    old = Progress(subscription_id="old", offset=9).metadata()
    found = {FIRST: Committed(9, old)}
    assert await starts(found).committed([(a_subscription("a"), FIRST)]) == ({}, {})


async def test_a_deleted_subscription_starts_nowhere() -> None:
    assert await starts({}).copied(a_subscription("deleted"), [FIRST]) is None


async def test_without_a_commit_starts_from_the_copy_else_from_its_beginning() -> None:
    subscription = a_subscription("a")
    copy = CursorStatus(
        subscription_id="a",
        topic="shop.orders",
        partition=1,
        worker_id="w",
        offset=5,
        end=9,
        delivered=4,
        discarded=1,
        volume=40,
    )
    added_later = Partition("shop.orders", 2)
    copied = await starts({}, copy).copied(subscription, [FIRST, SECOND, added_later])
    assert copied == {
        (subscription, FIRST): Progress(subscription_id="a", offset=7),
        (subscription, SECOND): Progress(
            subscription_id="a", offset=5, delivered=4, discarded=1, volume=40
        ),
        (subscription, added_later): Progress(subscription_id="a", offset=0),
    }
