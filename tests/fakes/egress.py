"""Where tests may deliver to."""

from typing import Final

from app.domain import egress
from app.domain.egress import EgressPolicy

LOOPBACK: Final = EgressPolicy(allowed=egress.LOOPBACK)
# The same as a setting.
ALLOW_LOOPBACK: Final = ",".join(map(str, egress.LOOPBACK))
