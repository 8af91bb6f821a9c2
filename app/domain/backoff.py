"""Computes how long a message waits between two attempts."""

from datetime import timedelta
from typing import Final

from app.domain.catalogue.subscription import DeliveryPolicy

# A delay is made longer at random, at most by this part of it, so that messages that failed
# together are not retried together.
JITTER: Final = 0.1


def backoff_delay(policy: DeliveryPolicy, *, attempt: int, jitter: float) -> timedelta:
    """Return the delay before attempt number `attempt + 1`, with `jitter` drawn from [0, 1).

    `attempt` is the number of the failed attempt, from 1. The first delay is `message_backoff`.
    Each further delay is `backoff_multiplier` times as long, up to `backoff_interval_max`, plus at
    most 10 %. With `first_retry_immediate` the first retry has no delay, and the delays above begin
    with the second retry.
    """
    if policy.first_retry_immediate:
        attempt -= 1
    if attempt == 0:
        return timedelta()
    delay = min(_grown(policy, attempt - 1), policy.backoff_interval_max)
    return delay * (1 + JITTER * jitter)


def retry_delay(
    policy: DeliveryPolicy, *, backoffs: int, retry_after: timedelta | None, jitter: float
) -> timedelta:
    """Return the delay before the next attempt, after a failure or a deferral.

    `backoffs` is the number of failures so far, including this one, after which the subscriber
    requested no time. A time that the subscriber requested is never shortened. If a subscriber
    always requests a delay of zero, the first delay that is not immediate applies, to avoid a storm
    of requests.
    """
    if retry_after is None:
        return backoff_delay(policy, attempt=backoffs, jitter=jitter)
    attempt = max(backoffs, 2 if policy.first_retry_immediate else 1)
    return max(retry_after, backoff_delay(policy, attempt=attempt, jitter=jitter))


def _grown(policy: DeliveryPolicy, steps: int) -> timedelta:
    if not policy.message_backoff:
        return timedelta()
    try:
        return policy.message_backoff * policy.backoff_multiplier**steps
    except OverflowError:
        # Return the maximum, because the number is too large for a float or a timedelta.
        return policy.backoff_interval_max
