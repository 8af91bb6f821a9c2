"""Decides whether and when a process that has ended is started again."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a process that has ended is started again.

    Attributes:
        delay: The wait before the restart after the first failure. It doubles with each failure.
        delay_max: The longest wait before a restart.
        settled_after: A process that ran for this time was healthy, so its next failure counts as
            the first.
        deaths_max: After this many failures, one after another, the process is not started again.
            None: it is always started again.
    """

    delay: timedelta = timedelta(seconds=1)
    delay_max: timedelta = timedelta(seconds=30)
    settled_after: timedelta = timedelta(seconds=60)
    deaths_max: int | None = None


@dataclass(frozen=True, slots=True)
class Restarts:
    """The number of failures of a process since it was last healthy."""

    policy: RestartPolicy
    deaths: int = 0

    def died(self, *, uptime: timedelta) -> "Restarts":
        """Return the state after one more failure of the process, which ran for `uptime`."""
        before = 0 if uptime >= self.policy.settled_after else self.deaths
        return Restarts(self.policy, before + 1)

    @property
    def are_over(self) -> bool:
        """Whether the process has failed too often to be started again."""
        return self.policy.deaths_max is not None and self.deaths >= self.policy.deaths_max

    @property
    def delay(self) -> timedelta:
        """How long to wait before the process is started; zero if the process has not failed."""
        if self.deaths == 0:
            return timedelta()
        # The exponent is limited, because a very large delay would overflow. The maximum delay is
        # reached long before this limit.
        doubled = self.policy.delay * (1 << min(self.deaths - 1, 16))
        return min(doubled, self.policy.delay_max)
