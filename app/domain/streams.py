"""Log topics of Angelia's own."""

from typing import Final

UNDELIVERED: Final = "angelia.undelivered"
UNDELIVERED_PARTITIONS: Final = 4

TRACES: Final = "angelia.traces"
TRACES_PARTITIONS: Final = 4

# A topic like any other, but for who publishes to it.
ALERTS: Final = "angelia.alerts"

OWN: Final = frozenset({UNDELIVERED, TRACES})
