"""The names of log topics that Angelia uses itself."""

from typing import Final

UNDELIVERED: Final = "angelia.undelivered"
UNDELIVERED_PARTITIONS: Final = 4

TRACES: Final = "angelia.traces"
TRACES_PARTITIONS: Final = 4

# The topic with the anchors of ledgers (app.domain.insight.ledger_anchors). It has one partition.
LEDGERS: Final = "angelia.ledgers"

# The topic with alerts. It differs from other topics only in who may publish to it.
ALERTS: Final = "angelia.alerts"

# The topics that workers create, write and read.
OWN: Final = frozenset({UNDELIVERED, TRACES})
