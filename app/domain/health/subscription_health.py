"""How a subscription does: what waits for it, how fast it goes, and what will be lost."""

from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.health.forecast import Loss
from app.domain.health.indicators import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHealth:
    """How a subscription does, over all its partitions; as of the last look at it.

    `lag` counts messages that are not finished, and `lag_time` is the age of the oldest message
    that waits to be taken. Messages a second: `arrival_rate` into its topic, `output_rate` out of
    its queue. `drain` is how long it takes until nothing waits; None: for ever, or not known.
    `losses` are those to come, the first one first. `discarded_share` is of what was finished in
    the last minute, `discarded` how many that were.
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
        """The next one to come."""
        return self.losses[0] if self.losses else None
