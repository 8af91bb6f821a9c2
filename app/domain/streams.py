"""Log topics of Angelia's own."""

from typing import Final

UNDELIVERED: Final = "angelia.undelivered"
UNDELIVERED_PARTITIONS: Final = 4

TRACES: Final = "angelia.traces"
TRACES_PARTITIONS: Final = 4

OWN: Final = frozenset({UNDELIVERED, TRACES})
