"""When a message may be sent, when its time to live starts, and when it is too old (pure)."""

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.message import Message


def delay_left_ms(message: Message, policy: DeliveryPolicy, *, now_ms: float) -> float:
    """Return for how many milliseconds the message must still wait because of `sending_delay`.

    The result is never longer than `sending_delay`, even if the clocks of publisher and worker
    differ.
    """
    if not policy.sending_delay:
        return 0.0
    delay_ms = policy.sending_delay.total_seconds() * 1e3
    return min(max(message.published_ms + delay_ms - now_ms, 0.0), delay_ms)


def ttl_starts_ms(message: Message, policy: DeliveryPolicy, *, opened_ms: int) -> float:
    """Return when the time to live of the message starts (epoch ms).

    The time to live never starts before the message may be sent, even if a past owner opened the
    message earlier.
    """
    return opened_ms + delay_left_ms(message, policy, now_ms=opened_ms)


def is_stale(message: Message, policy: DeliveryPolicy, *, now_ms: float) -> bool:
    """Whether the message is too old for a first attempt."""
    if policy.publish_ttl is None:
        return False
    return now_ms - message.published_ms > policy.publish_ttl.total_seconds() * 1e3
