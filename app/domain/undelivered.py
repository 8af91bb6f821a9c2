"""A message that was discarded, with all that is needed to understand it and to send it again."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """One discard of one message by one subscription."""

    subscription_id: str
    topic: str
    subscription: str
    message_id: str
    discarded_at: datetime
    reason: str
    status: int | None
    attempts: int
    partition: int
    offset: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
