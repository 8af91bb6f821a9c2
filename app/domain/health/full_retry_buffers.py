"""Full retry buffers, which block new messages (pure)."""

from collections.abc import Iterable
from datetime import timedelta

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.status import SubscriptionLoad


def fullness(policy: DeliveryPolicy, loads: Iterable[SubscriptionLoad]) -> float:
    """Return how full the fullest retry buffer is, from 0 to 1.

    The result is 1 if new messages wait for space, and 0 if they never wait for space. Delayed
    messages are in the same buffer, but have not failed. For subscriptions with a delay the value
    would mean nothing, so it is 0.
    """
    if not policy.waits_for_room or policy.sending_delay:
        return 0.0
    return max((load.waiting_retries / policy.retry_buffer_max for load in loads), default=0.0)


def given_up_after(policy: DeliveryPolicy, loads: Iterable[SubscriptionLoad]) -> timedelta | None:
    """Return how long a message is retried before it is discarded to make space for others.

    None if it is never discarded for this reason.
    """
    wait = policy.exhausted_wait_max
    return wait if wait is not None and fullness(policy, loads) >= 1 else None
