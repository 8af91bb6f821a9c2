"""Texts that show people which brokers throttle this process (pure)."""

import time
from collections.abc import Sequence
from typing import Final

from app.log.interface import LogStats

# How long a broker is shown after it throttled this process, in seconds. People look only now and
# then.
SHOWN_FOR_S: Final = 60.0


def throttled(stats: LogStats, now: float | None = None) -> Sequence[str]:
    """Return a line for each broker that throttles this process, or did in the last minute.

    `now` is a time of the monotonic clock.
    """
    now = time.monotonic() if now is None else now
    return [
        f"broker {node} throttles this process: a quota of Kafka is used up, "
        f"for {each.seconds:.1f} s at last"
        for node, each in sorted(stats.throttles.items())
        if now < each.until + SHOWN_FOR_S
    ]
