"""Decides when a process that ended is restarted."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How long to wait before a restart: `delay` after the first failure.

    The delay doubles after each further failure, up to `delay_max`. A process that ran for
    `settled_after` counts as healthy, so its next failure is a first one. After `deaths_max`
    failures in a row the process is not restarted. If `deaths_max` is None, it is always restarted.
    """

    delay: timedelta = timedelta(seconds=1)
    delay_max: timedelta = timedelta(seconds=30)
    settled_after: timedelta = timedelta(seconds=60)
    deaths_max: int | None = None


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often in a row a process has failed without being healthy in between."""

    policy: RestartPolicy
    deaths: int = 0

    def died(self, *, uptime: timedelta) -> "Restarts":
        """Return the state after one more failure, after `uptime` of running."""
        before = 0 if uptime >= self.policy.settled_after else self.deaths
        return Restarts(self.policy, before + 1)

    @property
    def are_over(self) -> bool:
        """Whether the process must not be restarted any more."""
        return self.policy.deaths_max is not None and self.deaths >= self.policy.deaths_max

    @property
    def delay(self) -> timedelta:
        """How long to wait before the next start; zero before the first."""
        if self.deaths == 0:
            return timedelta()
        # Limit the exponent. The delay is at its maximum anyway, and a larger power would overflow.
        doubled = self.policy.delay * (1 << min(self.deaths - 1, 16))
        return min(doubled, self.policy.delay_max)
