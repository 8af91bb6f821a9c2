"""How long a message waits between two attempts."""

from datetime import timedelta
from typing import Final

from app.domain.catalogue.subscription import DeliveryPolicy

# Retries of messages that failed together are spread this far beyond the delay, which is a minimum.
JITTER: Final = 0.1


def backoff_delay(policy: DeliveryPolicy, *, attempt: int, jitter: float) -> timedelta:
    """Delay before attempt number `attempt + 1`, with `jitter` drawn from [0, 1).

    `attempt` is the number of the attempt that has failed, from 1. The first delay is
    `message_backoff`; each next one is `backoff_multiplier` times as long, up to
    `backoff_interval_max`; the result is that and up to 10 % more. With `first_retry_immediate` all
    this begins one retry later, and the first has no delay.
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
    """Delay before the next attempt after one that failed, or that asked to come later.

    `backoffs` counts the failures so far that did not say when to come again, this one included. A
    delay that was asked for is never cut short; and whoever asks for "at once" does not get a
    storm: the first delay that is not immediate is kept.
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
        # More than a float or a timedelta holds: certainly more than the cap.
        return policy.backoff_interval_max
