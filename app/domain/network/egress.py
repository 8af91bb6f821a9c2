"""Allowed targets of deliveries: no private addresses, and no ports of other services.

This code is pure: other code resolves names. Each address of a name is checked here before a
connection is opened to this address. The networks are those of IANA's special-purpose registries
(RFC 6890 and its successors).
"""

import socket
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The loopback networks, by which a machine reaches itself.
LOOPBACK: Final[tuple[Network, ...]] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
# The allowed ports below 1024. All other ports below 1024 belong to services that do not expect
# requests of strangers.
WEB_PORTS: Final = frozenset({80, 443})
UNPRIVILEGED_PORT: Final = 1024
# The highest port of TCP.
PORT_MAX: Final = 65_535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_SPECIAL_IPV4: Final = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a provider's own network",
    "127.0.0.0/8": "this machine",
    # Private addresses outside of the link-local range: Azure's guest agent, and IBM's endpoints
    # for its own machines.
    "161.26.0.0/16": "the cloud's own services",
    "166.8.0.0/14": "the cloud's own services",
    "168.63.129.16/32": "the cloud's own services",
    "169.254.0.0/16": "the local link, where clouds keep their metadata",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "a reserved network",
    "192.0.2.0/24": "a network for documentation",
    "192.88.99.0/24": "a relay into other networks",
    "192.168.0.0/16": "a private network",
    "198.18.0.0/15": "a network for benchmarks",
    "198.51.100.0/24": "a network for documentation",
    "203.0.113.0/24": "a network for documentation",
    "224.0.0.0/4": "a multicast group",
    "240.0.0.0/4": "a reserved network",
}
# Special networks inside the only block of IPv6 addresses that is routed.
_SPECIAL_IPV6: Final = {
    "2001::/23": "a reserved network",
    "2001:db8::/32": "a network for documentation",
    "2002::/16": "a relay into other networks",
    "3fff::/20": "a network for documentation",
}
_ROUTED_IPV6: Final = IPv6Network("2000::/3")
_SPECIAL: Final = [
    (ip_network(network), meaning) for network, meaning in (_SPECIAL_IPV4 | _SPECIAL_IPV6).items()
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """The addresses that deliveries may use: public ones, and those in the `allowed` networks."""

    allowed: tuple[Network, ...] = ()

    def problem(self, address: Address, port: int) -> str | None:
        """Return why nothing may be sent to `address` and `port`; None if sending is allowed."""
        meant = canonical(address)
        if any(meant in network for network in self.allowed):
            return None
        meaning = _special(meant)
        if meaning is not None:
            return f"{address} belongs to {meaning}"
        return _port_problem(port)

    def endpoint_problem(self, scheme: str, host: str, port: int | None) -> str | None:
        """Return why an endpoint is not allowed, as far as its URL shows; None if it is allowed.

        Names of hosts are not resolved.
        """
        dialled = DEFAULT_PORTS.get(scheme, 0) if port is None else port
        address = spelled_address(host)
        if address is None and _is_localhost(host):
            address = IPv4Address("127.0.0.1")
        if address is not None:
            return self.problem(address, dialled)
        # If deliveries may use some private networks, allow any port here. The name of the host may
        # resolve to an address in such a network, where all ports are allowed.
        return None if self.allowed else _port_problem(dialled)


def spelled_address(host: str) -> Address | None:
    """Return the address in `host`, in any form that resolvers know; None for a name.

    Such forms are 127.1, 0x7f.1 and 2130706433.
    """
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host.removesuffix(".")))
    except (OSError, ValueError):
        return None


def _port_problem(port: int) -> str | None:
    if port in WEB_PORTS or port >= UNPRIVILEGED_PORT:
        return None
    return f"port {port} is not one for web requests"


def canonical(address: Address) -> Address:
    """Return `address`, or the IPv4 address inside an IPv6 one (::ffff:127.0.0.1)."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _special(address: Address) -> str | None:
    if isinstance(address, IPv6Address):
        if address == IPv6Address(1):
            return "this machine"
        if address not in _ROUTED_IPV6:
            return "a network that is not routed"
    return next((meaning for network, meaning in _SPECIAL if address in network), None)


def _is_localhost(host: str) -> bool:
    name = host.removesuffix(".").lower()
    return name == "localhost" or name.endswith(".localhost")
