"""What a soak is to be: how long, and how much is published."""

from dataclasses import dataclass
from typing import Final

# What fills up at the start is not judged: caches, connections, tables that reach their usual size.
WARM_UP_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long in seconds, at which rate, and the seed of the churn.

    Without a rate, it is the one at which the service uses so many cores.
    """

    seconds: float
    rate: float | None = None
    cores: float = 0.6
    seed: int = 1

    @property
    def warm_up_s(self) -> float:
        """Return for how many seconds nothing is judged, and the rate is sought."""
        return min(WARM_UP_S, self.seconds / 2)
