"""The names of log topics that Angelia uses itself."""

from typing import Final

UNDELIVERED: Final = "angelia.undelivered"
UNDELIVERED_PARTITIONS: Final = 4

TRACES: Final = "angelia.traces"
TRACES_PARTITIONS: Final = 4

# The topic with alerts. It is like any other, except for who may publish to it.
ALERTS: Final = "angelia.alerts"

OWN: Final = frozenset({UNDELIVERED, TRACES})
