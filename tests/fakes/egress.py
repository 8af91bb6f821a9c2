"""The addresses to which workers may deliver in tests."""

from typing import Final

from app.domain.network import egress
from app.domain.network.egress import EgressPolicy

LOOPBACK: Final = EgressPolicy(allowed=egress.LOOPBACK)
# The same addresses, in the form of a setting.
ALLOW_LOOPBACK: Final = ",".join(map(str, egress.LOOPBACK))
