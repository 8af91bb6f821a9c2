"""Subscriptions with batches: what a plan draws, what workers get, and what is read in a request.

The settings are drawn with a generator of their own. So the other seeds keep their histories.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.subscription import Subscription

# The fraction of plans with batches, and of their subscriptions that get batches.
PLANS: Final = 0.2
SUBSCRIPTIONS: Final = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """When the batches of a subscription are sent, and their format.

    `volume` is in bytes, `time_s` in seconds.
    """

    size: int
    volume: int
    time_s: float
    format: str


def draw(seed: int, subscriptions: int) -> Sequence[BatchPlan | None]:
    """Draw the batches of each subscription of a plan; None for a subscription without batches."""
    random = Random(f"batches {seed}")
    if random.random() >= PLANS:
        return [None] * subscriptions
    return [
        _batch(random) if random.random() < SUBSCRIPTIONS else None for _ in range(subscriptions)
    ]


def _batch(random: Random) -> BatchPlan:
    return BatchPlan(
        size=random.choice((1, 2, 3, 5, 20, 100)),
        # Some messages have 2,000 bytes: they do not fit into the smallest batches.
        volume=random.choice((600, 2_500, 5_000, 64_000)),
        time_s=random.choice((0.001, 0.05, 0.5, 3.0)),
        format=random.choice([each.value for each in BatchFormat]),
    )


def in_batches(subscription: Subscription, batch: BatchPlan | None) -> Subscription:
    """Return the subscription with batches as planned."""
    if batch is None:
        return subscription
    policy = replace(
        subscription.policy,
        batch_size=batch.size,
        batch_volume=batch.volume,
        batch_time=timedelta(seconds=batch.time_s),
    )
    return replace(
        subscription,
        policy=policy,
        delivery_type=DeliveryType.BATCH,
        batch_format=BatchFormat(batch.format),
    )


def names_in(body: bytes) -> tuple[str, ...]:
    """Return the names of the messages in the body of a batch; none if it cannot be read."""
    try:
        found = json.loads(body) if body[:1] == b"[" else [*map(json.loads, body.splitlines())]
        return tuple(_name(each) for each in found)
    except (ValueError, TypeError, KeyError):
        return ()


def _name(found: dict[str, Any]) -> str:
    return str(found["metadata"]["id"] if "_w" in found else found["id"])
