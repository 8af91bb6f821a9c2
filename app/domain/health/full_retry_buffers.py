"""Full retry buffers, which block new messages (pure)."""

from collections.abc import Iterable
from datetime import timedelta

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.status import SubscriptionLoad


def fullness(policy: DeliveryPolicy, loads: Iterable[SubscriptionLoad]) -> float:
    """Return how full the fullest retry buffer is, from 0 to 1.

    The result is 1 if new messages wait for space, and 0 if they never wait for space. For a
    subscription with a delay the result is always 0. Its delayed messages are in the same buffer
    without a failure, so the fullness would mean nothing.
    """
    if not policy.waits_for_room or policy.sending_delay:
        return 0.0
    return max((load.waiting_retries / policy.retry_buffer_max for load in loads), default=0.0)


def given_up_after(policy: DeliveryPolicy, loads: Iterable[SubscriptionLoad]) -> timedelta | None:
    """Return how long a message is retried before it is discarded to make space for others.

    The result is None if no message is discarded for this reason now.
    """
    wait = policy.exhausted_wait_max
    return wait if wait is not None and fullness(policy, loads) >= 1 else None
