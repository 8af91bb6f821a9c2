"""Angelia's own log topics."""

from typing import Final

UNDELIVERED: Final = "angelia.undelivered"
UNDELIVERED_PARTITIONS: Final = 4

TRACES: Final = "angelia.traces"
TRACES_PARTITIONS: Final = 4

# A topic like any other, except for who may publish to it.
ALERTS: Final = "angelia.alerts"

OWN: Final = frozenset({UNDELIVERED, TRACES})
