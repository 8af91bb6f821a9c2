"""Subscriptions with several addresses, each of which gets each message.

The settings are drawn with a generator of their own. So the other seeds keep their histories.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

# The fraction of plans with broadcasts, and of their subscriptions that broadcast.
PLANS: Final = 0.15
SUBSCRIPTIONS: Final = 0.7


def draw(seed: int, subscriptions: int, moods: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """Draw for each subscription the moods of its further addresses; none without a broadcast."""
    random = Random(f"broadcast {seed}")
    if random.random() >= PLANS:
        return [()] * subscriptions
    return [
        _further(random, moods) if random.random() < SUBSCRIPTIONS else ()
        for _ in range(subscriptions)
    ]


def _further(random: Random, moods: Sequence[str]) -> tuple[str, ...]:
    further = random.choice((1, 1, 2, 3))
    return tuple("well" if random.random() < 0.5 else random.choice(moods) for _ in range(further))


def host_of(subscription: str) -> str:
    """Return the name of the host with all addresses of a subscription."""
    return f"{subscription}.sim"


def address_names(subscription: str, further: int) -> list[str]:
    """Return the name of each address of a subscription. The first one has the subscription's."""
    return [subscription, *(f"{subscription}@{number}" for number in range(2, further + 2))]


def subscription_of(address: str) -> str:
    """Return the subscription of an address."""
    return address.partition("@")[0]
