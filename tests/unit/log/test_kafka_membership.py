"""Whether a member can still count on what it owns, by the clock alone."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from app.domain.message import Partition
from app.log.interface import Assigned, Revoked
from app.log.kafka.ownership import Membership

if TYPE_CHECKING:
    from app.log.kafka.bridge import IoThread

HERE = Partition("t", 0)
LONG_AGO_S = 6.0


class Io:
    """A thread that hands over at once."""

    def hand_over(self, action: Callable[..., object], *arguments: object) -> None:
        action(*arguments)

    def post(self, work: Callable[[], object]) -> None:
        work()


def a_membership(*, heard_s_ago: float) -> Membership:
    membership = Membership(cast("IoThread", Io()), "n.")
    membership.member = SimpleNamespace(last_contact_at=time.monotonic() - heard_s_ago)
    return membership


async def follow(membership: Membership) -> list[object]:
    """Take in all events there are."""
    membership.end()
    return [event async for event in membership.events()]


async def test_a_member_that_was_heard_of_counts_on_what_it_owns() -> None:
    membership = a_membership(heard_s_ago=1)
    membership.assigned([("n.t", 0)])
    assert await follow(membership) == [Assigned(frozenset({HERE}))]
    assert membership.is_sure


async def test_a_member_that_was_not_heard_of_for_a_session_counts_on_nothing_it_owns() -> None:
    membership = a_membership(heard_s_ago=LONG_AGO_S)
    assert membership.is_sure  # it owns nothing
    membership.assigned([("n.t", 0), ("n.t", 1)])
    await follow(membership)
    assert not membership.is_sure


async def test_what_is_lost_counts_until_that_is_taken_in() -> None:
    membership = a_membership(heard_s_ago=LONG_AGO_S)
    membership.assigned([("n.t", 0)])
    membership.lost([("n.t", 0)])
    membership.end()
    assert [membership.is_sure async for _ in membership.events()] == [False, False]
    assert membership.is_sure


async def test_what_is_revoked_counts_until_it_is_released() -> None:
    membership = a_membership(heard_s_ago=LONG_AGO_S)
    membership.assigned([("n.t", 0)])
    membership.revoked([("n.t", 0)], lambda: None)
    *_, revoked = await follow(membership)
    assert isinstance(revoked, Revoked)
    assert not membership.is_sure
    revoked.release()
    assert membership.is_sure
