"""The host names and addresses by which requests may call this service."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.network.egress import Address
from app.domain.network.hosts import ANY, address_of, is_one_of

_LOCALHOST: Final = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHosts:
    """The hosts that requests may name: this machine, its address, and the configured hosts.

    `bound` is the address that the service listens on, and `machine` the name of this machine. The
    host that a request names must be checked because of DNS rebinding: an attacker can let a name
    resolve to any address, so that a web page of the attacker can send requests to this service.
    """

    bound: str
    machine: str
    configured: Sequence[str] = ()

    def include(self, host: str) -> bool:
        """Whether a request may name `host`, which is without a port."""
        if ANY in self.configured or is_one_of([_LOCALHOST, *self.configured], host):
            return True
        address = address_of(host)
        if address is not None:
            return address.is_loopback or self._listens_at(address)
        names = [self.bound] if self._is_local else [self.bound, self.machine]
        return is_one_of([name for name in names if name], host)

    @property
    def _is_local(self) -> bool:
        bound = address_of(self.bound)
        return self.bound == _LOCALHOST if bound is None else bound.is_loopback

    def _listens_at(self, address: Address) -> bool:
        bound = address_of(self.bound)
        if bound is None:
            # If no address to listen on is configured, the service listens on all addresses, as
            # with 0.0.0.0. So allow any address.
            return not self.bound
        return bound.is_unspecified or address == bound
