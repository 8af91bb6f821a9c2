"""Where tests may deliver to."""

from typing import Final

from app.domain.network import egress
from app.domain.network.egress import EgressPolicy

LOOPBACK: Final = EgressPolicy(allowed=egress.LOOPBACK)
# The same as a setting.
ALLOW_LOOPBACK: Final = ",".join(map(str, egress.LOOPBACK))
