"""What tests of batches share: subscriptions that get them, endpoints, and what was sent."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import (
    Delivered,
    Outcome,
    Retry,
)
from app.domain.message import Partition
from tests.fakes.worker import Attempt, World, delivered

URL = "http://s.test/"
SOON = timedelta(milliseconds=2)
LATE = timedelta(minutes=10)
EVEN = (Filter(type=FilterType.JSONPATH, path="$", matcher="[0-9]*[02468]"),)


async def subscribed(
    world: World, topic: Topic, *, filters: tuple[Filter, ...] = (), **policy: object
) -> Subscription:
    """A subscription that gets plain batches, which wait for long unless `policy` says else."""
    settings: dict[str, Any] = {"batch_time": LATE, "message_backoff": SOON, **policy}
    made = await world.subscribe(topic, **settings)
    return world.plane.put(
        replace(
            made,
            delivery_type=DeliveryType.BATCH,
            batch_format=BatchFormat.PLAIN,
            filters=filters,
        )
    )


def changed(world: World, subscription: Subscription, **policy: object) -> Subscription:
    new = replace(subscription.policy, **policy)  # type: ignore[arg-type]  # any settings
    return world.plane.put(replace(subscription, policy=new))


def numbers(*counts: int) -> list[bytes]:
    return [b"%d" % number for number in range(*counts)]


def batches(world: World) -> list[list[int]]:
    """What was sent, request by request."""
    return [orjson.loads(body) for body in world.endpoints.bodies(URL)]


def every(world: World) -> list[int]:
    return [number for batch in batches(world) for number in batch]


def discards(world: World) -> list[tuple[bytes, str, int]]:
    return sorted((each.body, each.reason, each.attempts) for each in world.plane.undelivered)


def first_fails(world: World, failure: Outcome, *, times: int = 1) -> None:
    def reply(_: Attempt) -> Outcome:
        failed = len(world.endpoints.bodies(URL)) <= times
        return failure if failed else Delivered(status=200)

    world.endpoints.replies[URL] = reply


def failing(world: World, *unwanted: int, status: int = 500) -> None:
    def reply(attempt: Attempt) -> Outcome:
        fails = not unwanted or set(orjson.loads(attempt.body)) & set(unwanted)
        return Retry(reason="no", status=status) if fails else Delivered(status=200)

    world.endpoints.replies[URL] = reply


async def collected(world: World, topic: Topic, *bodies: bytes) -> None:
    """Publish these and return when they are read: another subscription has them then."""
    other = next((s for s in world.plane.subscriptions.values() if s.name == "other"), None)
    if other is None:
        other = await world.subscribe(topic, "other")
        await world.plane.until_applied()
    had = delivered(world, other.id)
    await world.publish(topic, *bodies)
    await world.plane.until(lambda: delivered(world, other.id) == had + len(bodies))


def committed(world: World, subscription: Subscription, index: int = 0) -> int:
    return world.memory.commits[subscription.group][Partition(subscription.topic, index)].offset


def filtered(world: World, subscription: Subscription) -> int:
    return sum(s.filtered for (i, _), s in world.plane.statuses.items() if i == subscription.id)
