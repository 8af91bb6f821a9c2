"""Tries again to apply a subscription's settings after an unexpected error, with growing delays."""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

RETRY_MIN_S: Final = 1.0
RETRY_MAX_S: Final = 60.0


class Timer(Protocol):
    """A call that an event loop will make at a set time."""

    def cancel(self) -> None:
        """Cancel the call."""


class Timers(Protocol):
    """The part of an event loop that `ConfigurationRetries` uses."""

    def call_later(self, delay: float, act: Callable[[], None], /) -> Timer:
        """Call `act` after `delay` seconds."""


def delay_after(failures: int) -> float:
    """Return how many seconds to wait after this many failures one after another (at least one)."""
    return min(RETRY_MAX_S, RETRY_MIN_S * 2.0 ** min(failures - 1, 30))


class ConfigurationRetries:
    """Calls `again` with the id of each subscription whose settings could not be applied.

    The call is repeated until the settings are applied. Each subscription has its own timer.
    """

    def __init__(self, timers: Timers, again: Callable[[str], None]) -> None:
        self._timers = timers
        self._again = again
        self._failures: dict[str, int] = {}
        self._waiting: dict[str, Timer] = {}

    def failed(self, key: str) -> None:
        """Retry after a delay, because the settings of a subscription could not be applied."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._stop(key)
        again = partial(self._due, key)
        self._waiting[key] = self._timers.call_later(delay_after(failures), again)

    def done(self, key: str) -> None:
        """Stop retrying, because the settings of a subscription are applied or not needed."""
        self._failures.pop(key, None)
        self._stop(key)

    def close(self) -> None:
        """Stop all retries."""
        for key in tuple(self._failures):
            self.done(key)

    def _due(self, key: str) -> None:
        del self._waiting[key]
        self._again(key)

    def _stop(self, key: str) -> None:
        if (timer := self._waiting.pop(key, None)) is not None:
            timer.cancel()
