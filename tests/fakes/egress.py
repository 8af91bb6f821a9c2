"""Where tests may deliver to."""

from ipaddress import ip_network
from typing import Final

from app.domain.egress import EgressPolicy

LOOPBACK: Final = EgressPolicy(allowed=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
# The same as a setting.
ALLOW_LOOPBACK: Final = "127.0.0.0/8,::1/128"
