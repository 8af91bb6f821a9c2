"""The health of a subscription: its backlog, its rate, and its future losses."""

from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.health.forecast import Loss
from app.domain.health.indicators import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHealth:
    """The health of a subscription over all its partitions, as of the last evaluation.

    `lag` is the number of unfinished messages, and `lag_time` is the age of the oldest message that
    waits to be taken. `arrival_rate` is how many messages per second are published to the topic,
    and `output_rate` how many are taken. `drain` is the time until no message waits; None: never,
    or unknown. `losses` are the expected losses, the first one first. `discarded_share` is the
    share of discards among the messages finished in the last minute, and `discarded` is their
    number.
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
        """The next loss."""
        return self.losses[0] if self.losses else None
