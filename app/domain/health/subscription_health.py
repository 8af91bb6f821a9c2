"""The health of a subscription: its backlog, its rate, and its future losses."""

from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.health.forecast import Loss
from app.domain.health.indicators import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHealth:
    """The health of a subscription over all its partitions, as of the last evaluation.

    Attributes:
        lag: The number of unfinished messages.
        lag_time: The age of the oldest message that waits to be taken.
        arrival_rate: How many messages per second are published to the topic.
        output_rate: How many messages per second are finished.
        drain: The time until no message waits any more; None if there will always be waiting
            messages, or if the time is unknown.
        losses: The expected losses, the first one first.
        discarded: The number of discards in the last minute.
        discarded_share: The part of the tried messages of the last minute that were discarded.
        problems: What is wrong now.
    """

    lag: int = 0
    lag_time: timedelta = timedelta()
    arrival_rate: float = 0.0
    output_rate: float = 0.0
    drain: timedelta | None = field(default=timedelta())
    losses: tuple[Loss, ...] = ()
    discarded: int = 0
    discarded_share: float = 0.0
    problems: tuple[Problem, ...] = ()

    @property
    def first_loss(self) -> Loss | None:
        """The next expected loss; None if no loss is expected."""
        return self.losses[0] if self.losses else None
