"""Retry buffers that are full, so that nothing new is sent (pure)."""

from collections.abc import Iterable
from datetime import timedelta

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.status import SubscriptionLoad


def fullness(policy: DeliveryPolicy, loads: Iterable[SubscriptionLoad]) -> float:
    """How full the fullest retry buffer is: 1 where what is new waits, 0 where it never does.

    What waits for its delay is in that buffer too, without having failed: then it says nothing.
    """
    if not policy.waits_for_room or policy.sending_delay:
        return 0.0
    return max((load.waiting_retries / policy.retry_buffer_max for load in loads), default=0.0)


def given_up_after(policy: DeliveryPolicy, loads: Iterable[SubscriptionLoad]) -> timedelta | None:
    """For how long a message is tried before it makes room for others; None: none is to."""
    wait = policy.exhausted_wait_max
    return wait if wait is not None and fullness(policy, loads) >= 1 else None
