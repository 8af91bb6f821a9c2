"""Applies settings again, later and later, that a defect of ours kept from being applied."""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

RETRY_MIN_S: Final = 1.0
RETRY_MAX_S: Final = 60.0


class Timer(Protocol):
    """Something that is to happen."""

    def cancel(self) -> None:
        """It does not."""


class Timers(Protocol):
    """What is used of a loop."""

    def call_later(self, delay: float, act: Callable[[], None], /) -> Timer:
        """Do it in so many seconds."""


def delay_after(failures: int) -> float:
    """Seconds until something is tried again that failed so often in a row, at least once."""
    return min(RETRY_MAX_S, RETRY_MIN_S * 2.0 ** min(failures - 1, 30))


class ConfigurationRetries:
    """Calls `again` with each key that failed, until that is done. Each has one timer at most."""

    def __init__(self, timers: Timers, again: Callable[[str], None]) -> None:
        self._timers = timers
        self._again = again
        self._failures: dict[str, int] = {}
        self._waiting: dict[str, Timer] = {}

    def failed(self, key: str) -> None:
        """Try it again in a while."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._stop(key)
        again = partial(self._due, key)
        self._waiting[key] = self._timers.call_later(delay_after(failures), again)

    def done(self, key: str) -> None:
        """It is to be tried no more."""
        self._failures.pop(key, None)
        self._stop(key)

    def close(self) -> None:
        """Try nothing any more."""
        for key in tuple(self._failures):
            self.done(key)

    def _due(self, key: str) -> None:
        del self._waiting[key]
        self._again(key)

    def _stop(self, key: str) -> None:
        if (timer := self._waiting.pop(key, None)) is not None:
            timer.cancel()
