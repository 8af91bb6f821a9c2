"""Measures how much CPU one thing takes compared with another."""

from collections.abc import Callable
from typing import Final

# A bound is broken only if each of so many tries breaks it.
_TRIES: Final = 9
# On a busy machine, code that reads much memory takes up to 1.4 times its usual CPU time, because
# other processes use the same caches (measured).
SHARE_MAX: Final = 2.0


def least_share(took_s: Callable[[], float], plain_s: Callable[[], float], most: float) -> float:
    """Return the share of its bound that the CPU time of a thing takes; at most SHARE_MAX is fine.

    A try may pay for what is no part of it, such as a larger heap. So the least of several tries is
    returned. The first within the bound is the last one.

    Args:
        took_s: Does the thing; returns its CPU time in seconds.
        plain_s: Does a plain thing, at about the same moment; returns its CPU time in seconds.
        most: The bound: how many times as long as the plain thing it may take.
    """
    least = took_s() / plain_s() / most
    for _ in range(1, _TRIES):
        if least <= 1:
            break
        least = min(least, took_s() / plain_s() / most)
    return least
