"""The names of log topics that Angelia uses itself."""

from typing import Final

UNDELIVERED: Final = "angelia.undelivered"
UNDELIVERED_PARTITIONS: Final = 4

TRACES: Final = "angelia.traces"
TRACES_PARTITIONS: Final = 4

# The hashes of ledger entries (app.domain.insight.ledger_anchors), in one partition.
LEDGERS: Final = "angelia.ledgers"

# The topic with alerts. It is like any other, except for who may publish to it.
ALERTS: Final = "angelia.alerts"

OWN: Final = frozenset({UNDELIVERED, TRACES, LEDGERS})
