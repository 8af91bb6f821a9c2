"""When a process that died is started again."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Wait `delay` after a first death, twice as long after each further one, up to `delay_max`.

    A process that ran for `settled_after` is taken to have been well: its next death is a first.
    After `deaths_max` in a row it is not started any more; None: it always is.
    """

    delay: timedelta = timedelta(seconds=1)
    delay_max: timedelta = timedelta(seconds=30)
    settled_after: timedelta = timedelta(seconds=60)
    deaths_max: int | None = None


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often in a row a process has died without having been well in between."""

    policy: RestartPolicy
    deaths: int = 0

    def died(self, *, uptime: timedelta) -> "Restarts":
        """The same with one death more, after `uptime` of running."""
        before = 0 if uptime >= self.policy.settled_after else self.deaths
        return Restarts(self.policy, before + 1)

    @property
    def are_over(self) -> bool:
        """Whether it is not to be started again."""
        return self.policy.deaths_max is not None and self.deaths >= self.policy.deaths_max

    @property
    def delay(self) -> timedelta:
        """How long to wait before the next start; nothing before the very first."""
        if self.deaths == 0:
            return timedelta()
        # Past 2^16 every policy is at its longest; without a bound the power would overflow.
        doubled = self.policy.delay * (1 << min(self.deaths - 1, 16))
        return min(doubled, self.policy.delay_max)
