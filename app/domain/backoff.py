"""Computes the backoff: how long a message waits before its next attempt."""

from datetime import timedelta
from typing import Final

from app.domain.catalogue.subscription import DeliveryPolicy

# Each backoff is made longer by a random part of it, at most by this fraction. So messages that
# failed together are not retried together.
JITTER: Final = 0.1


def backoff_delay(policy: DeliveryPolicy, *, attempt: int, jitter: float) -> timedelta:
    """Return the delay after attempt number `attempt` (from 1) has failed.

    The first delay is `message_backoff`. Each further delay is `backoff_multiplier` times as long,
    up to `backoff_interval_max`. At most 10 % are added: `jitter`, a random number from 0 to 1,
    says which part of the 10 %. With `first_retry_immediate`, the first retry has no delay, and the
    delays above begin with the second retry.
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

    `retry_after` is the delay that the subscriber requested, if any. It is never shortened.
    `backoffs` counts the failures of the message after which the subscriber requested no delay,
    including the last failure. If a subscriber always requests a delay of zero, it gets the first
    delay that is not immediate. Otherwise it would get too many requests.
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
        # The delay is too large for a float or a timedelta, so it is the maximum delay.
        return policy.backoff_interval_max
