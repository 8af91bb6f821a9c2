"""Subscriptions with a dead-letter topic, which gets a copy of each message that they discard.

They are drawn with a generator of their own. So the other seeds keep their histories.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from app.domain.catalogue.dead_letter import HEADERS_PREFIX, DeadLetter
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.message import HEADER_ID, HEADER_PROPAGATED_PREFIX, NewRecord
from tests.simulation.history import DeadLettered
from tests.simulation.subscribers import digest_of

# The dead-letter topic of all plans that have one. No subscription reads it.
DEAD: Final = Topic(name="sim.dead", partitions=2)
# The fraction of plans with dead letters, and of their subscriptions that have them.
PLANS: Final = 0.15
SUBSCRIPTIONS: Final = 0.7


def draw(seed: int, subscriptions: int) -> Sequence[bool]:
    """Draw which subscriptions of a plan have dead letters."""
    random = Random(f"dead letters {seed}")
    has_some = random.random() < PLANS
    return [has_some and random.random() < SUBSCRIPTIONS for _ in range(subscriptions)]


def with_dead_letters(subscription: Subscription) -> Subscription:
    """Return the subscription with the dead-letter topic."""
    return replace(subscription, dead_letter=DeadLetter(topic=DEAD.name))


def dead_letter_of(record: NewRecord, at: float) -> DeadLettered:
    """Return the event that a record was stored in the dead-letter topic."""
    headers = dict(record.headers)

    def said(name: str) -> str:
        return headers.get(
            HEADER_PROPAGATED_PREFIX + f"{HEADERS_PREFIX}{name}".encode(), b""
        ).decode()

    return DeadLettered(
        at=at,
        id=headers[HEADER_ID].decode(),
        subscription=said("Subscription"),
        topic=said("Topic"),
        partition=int(said("Partition")),
        offset=int(said("Offset")),
        message=said("Message-Id"),
        key=None if record.key is None else record.key.decode(),
        body=digest_of(record.value or b""),
    )
